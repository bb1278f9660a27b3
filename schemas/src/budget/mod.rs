//! Latency budgets, their error budgets' burn rates, and the windows that both are evaluated over.
//!
//! Owns the definitions. Refuses to read files: [`crate::rule::file`] builds budgets from text.

mod burn_rate;
mod definition;
mod window;

pub use burn_rate::{BURN_RATES, BurnRate};
pub use definition::{Budget, Selector};
pub use window::Window;

/// The text of the budgets that every mesh evaluates unless its rule files override them.
pub const BUILT_IN: &str = include_str!("built_in.toml");
