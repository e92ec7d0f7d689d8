//! The header `Retry-After` (RFC 9110, 10.2.3): seconds, or a date in any of HTTP's three forms.

use std::time::UNIX_EPOCH;

/// Milliseconds from `now_s` (seconds since 1970), or nothing where the text is no wish to wait:
/// garbage, a negative number, a date that has passed. How long is too long is the host's to say.
pub fn parse_ms(text: &str, now_s: u64) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are still a very long time.
        return Some(text.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let seconds = date.duration_since(UNIX_EPOCH).ok()?.as_secs();
    seconds.checked_sub(now_s).filter(|&wait| wait > 0).map(|wait| wait.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT, the RFC's own example.
    const EXAMPLE: u64 = 784_111_777;

    #[test]
    fn s22_seconds_dates_negative_a_year_and_garbage() {
        for (text, expected) in [
            ("120", Some(120_000)),
            (" 5 ", Some(5_000)),
            ("0", Some(0)),
            ("31536000", Some(31_536_000_000)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(60_000)),
            ("Sun Nov  6 08:49:37 1994", Some(60_000)),
            ("Sun, 06 Nov 1994 08:48:37 GMT", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some((946_684_799 - EXAMPLE + 60) * 1_000)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
            ("١٢", None),
        ] {
            assert_eq!(parse_ms(text, EXAMPLE - 60), expected, "{text:?}");
        }
    }
}
