//! `sqlx::migrate!` embeds the migration files, but on stable a new file alone
//! does not trigger a rebuild. This does.

fn main() {
    println!("cargo::rerun-if-changed=migrations");
}
