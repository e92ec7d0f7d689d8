//! Progress where a person waits; nothing where a program reads.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error; hidden when that is not a terminal.
pub fn bar(total: Option<u64>, what: &str) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::no_length(),
    };
    let template = match total {
        Some(_) => "{msg} {wide_bar} {pos}/{len} ({per_sec}, {eta} left)",
        None => "{msg} {spinner} {pos} ({per_sec})",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
