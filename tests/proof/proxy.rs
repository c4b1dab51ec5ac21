//! Debian's proxies, with the configuration of `config/` and nothing of this machine's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::support::process::{address, eventually};
use crate::support::stand::SOON;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    Caddy,
    /// With a certificate of its own authority.
    CaddyTls,
    Haproxy,
    Nginx,
}

impl Proxy {
    pub(crate) fn program(self) -> Option<PathBuf> {
        let places: &[&str] = match self {
            Self::Caddy | Self::CaddyTls => &["/usr/bin/caddy", "/usr/local/bin/caddy"],
            Self::Haproxy => &["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"],
            Self::Nginx => &["/usr/sbin/nginx", "/usr/local/sbin/nginx"],
        };
        places.iter().map(PathBuf::from).find(|path| path.exists())
    }

    /// Starts it in front of `upstream`; what it writes lies below `home`.
    pub(crate) async fn start(
        self,
        program: &Path,
        upstream: SocketAddr,
        home: &Path,
    ) -> (Child, SocketAddr) {
        let at = address();
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
        let mut command = Command::new(program);
        let caddy = ["run", "--adapter", "caddyfile", "--config"];
        let site = match self {
            Self::Caddy => {
                command.args(caddy).arg(config.join("Caddyfile"));
                format!("http://{at}")
            }
            Self::CaddyTls => {
                // Neither port 80 nor the machine's list of authorities is a test's to change.
                let file = std::fs::read_to_string(config.join("Caddyfile")).unwrap();
                let kept = "admin off\n\tauto_https disable_redirects\n\tskip_install_trust\n";
                let file = file.replacen("admin off\n", kept, 1);
                assert!(file.contains(kept));
                std::fs::write(home.join("Caddyfile"), file).unwrap();
                command.args(caddy).arg(home.join("Caddyfile"));
                format!("https://localhost:{}", at.port())
            }
            Self::Haproxy => {
                command.args(["-db", "-f"]).arg(config.join("haproxy.cfg"));
                at.to_string()
            }
            Self::Nginx => {
                let file = std::fs::read_to_string(config.join("nginx.conf")).unwrap();
                let file = file
                    .replace("${HOOKLEDGER_SITE}", &at.to_string())
                    .replace("${HOOKLEDGER_UPSTREAM}", &upstream.to_string());
                std::fs::write(home.join("nginx.conf"), file).unwrap();
                let own = format!("daemon off; pid {};", home.join("nginx.pid").display());
                command.args(["-e", "stderr", "-g", &own, "-p"]).arg(home);
                command.arg("-c").arg(home.join("nginx.conf"));
                at.to_string()
            }
        };
        let child = command
            .env_clear()
            .env("HOME", home)
            .env("HOOKLEDGER_SITE", site)
            .env("HOOKLEDGER_UPSTREAM", upstream.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("the proxy listens", SOON, async || {
            tokio::net::TcpStream::connect(at).await.ok()
        })
        .await;
        (child, at)
    }

    /// Where it is called, and a client that believes its certificate.
    pub(crate) async fn client(self, at: SocketAddr, home: &Path) -> (String, reqwest::Client) {
        let client = reqwest::Client::builder().no_proxy();
        if self != Self::CaddyTls {
            return (format!("http://{at}"), client.build().unwrap());
        }
        let root = home.join(".local/share/caddy/pki/authorities/local/root.crt");
        let root = eventually("Caddy makes its authority", SOON, async || {
            reqwest::Certificate::from_pem(&std::fs::read(&root).ok()?).ok()
        })
        .await;
        let client = client.tls_certs_only([root]).build().unwrap();
        (format!("https://localhost:{}", at.port()), client)
    }
}
