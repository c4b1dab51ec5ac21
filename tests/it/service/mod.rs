//! The real program over real sockets, told by a fake Gemini and telling a recording receiver.

mod canary;
mod door;
mod drill;
mod faults;
mod import;
mod inherited;
mod paths;
mod proofs;
mod reload;
mod rotation;
mod stop;
