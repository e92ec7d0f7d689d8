//! Who runs this process, for rows that name a host or a person.

use super::config::digest::hex;
use crate::clock::Clock;

/// The machine's name, the process and a random part: two hosts of one machine, and one host before
/// and after its restart, are told apart.
pub fn host_id(clock: &dyn Clock) -> String {
    format!("{}-{}-{}", hostname(), std::process::id(), hex(&clock.token().0[..3]))
}

/// `user@machine`.
pub fn operator() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    // SAFETY: getuid takes nothing and can't fail.
    let user = user.unwrap_or_else(|_| format!("uid-{}", unsafe { libc::getuid() }));
    format!("{user}@{}", hostname())
}

fn hostname() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for its whole length, of which the last byte stays zero.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    match std::str::from_utf8(text) {
        Ok(text) if !failed && !text.is_empty() => text.to_owned(),
        _ => "unnamed-machine".to_owned(),
    }
}
