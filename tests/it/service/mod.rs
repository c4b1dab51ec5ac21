//! The real program over real sockets, told by a fake Gemini and telling a recording receiver.

mod canary;
mod door;
mod faults;
mod paths;
mod reload;
mod rotation;
mod stop;
