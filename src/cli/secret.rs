//! `secret`: fresh random secrets.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::json;

use super::args::{Nested, Secret};
use super::failure::Failure;
use super::output::Output;
use crate::base::ids::{Ids as _, RandomIds};

/// 256 bits; a URL-safe text of 43 characters.
const BYTES: usize = 32;

pub(super) fn run(args: &Nested<Secret>, output: &Output) -> Result<(), Failure> {
    let Secret::New { whsec } = args.verb;
    let mut bytes = [0; BYTES];
    RandomIds::from_system().fill(&mut bytes);
    let secret = if whsec {
        format!("whsec_{}", BASE64.encode(&bytes))
    } else {
        BASE64URL_NOPAD.encode(&bytes)
    };
    output.answer(&json!({"secret": secret}), |_| format!("{secret}\n"))
}
