//! The bound of any: hyper reads the body and answers 200.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hookledger::base::clock::SystemClock;
use hookledger::base::shutdown::Shutdown;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::print;

pub(crate) fn run(listen: SocketAddr) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(listen))
}

async fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    print::listening(listener.local_addr()?)?;
    let tasks = Shutdown::new(Arc::new(SystemClock::new()));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tasks.spawn("connection", async move {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            // A client that goes away is no news.
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let whole = request.into_body().collect().await;
    let status = if whole.is_ok() { 200 } else { 400 };
    let mut response = Response::new(Full::new(Bytes::from_static(b"{\"status\":\"accepted\"}")));
    if let Ok(status) = http::StatusCode::from_u16(status) {
        *response.status_mut() = status;
    }
    Ok(response)
}
