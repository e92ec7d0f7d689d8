//! How much the suites with a budget do: little by default, more in `cargo xtask test`, and the long
//! forms in `cargo xtask test --full`.

/// A number from the environment, if it is set.
pub fn from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}
