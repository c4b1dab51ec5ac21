//! Floor 1: configuration.

pub mod settings;

pub use settings::Settings;
