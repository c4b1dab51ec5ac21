//! The store through its public seam, on real files, with a shell's view of them beside it.

mod audit;
mod capture;
mod deliveries;
mod lists;
mod open;
mod plans;
mod schema;
mod sets;
mod settled;
mod soundness;
mod suspects;
mod upgrade;
mod writer;

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};

/// A connection of somebody else's to the file.
pub(crate) async fn outside(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    SqliteConnection::connect_with(&options).await.unwrap()
}
