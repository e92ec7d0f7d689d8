//! Guest text on its way to rows, logs and screens: cut to a limit, and never more than text.

const CUT_MARK: &str = "…";
const REPLACEMENT: char = '\u{fffd}';

/// Prose for people: new lines and tabs stay, every other control character (NUL, which databases
/// refuse, and escapes, which terminals obey) is replaced. At most `bytes_max` bytes.
pub fn prose(text: &str, bytes_max: usize) -> String {
    cut(text, bytes_max, |c| if c.is_control() && c != '\n' && c != '\t' { REPLACEMENT } else { c })
}

/// A word for machines, such as a code or a reference: no control characters at all.
pub fn word(text: &str, bytes_max: usize) -> String {
    cut(text, bytes_max, |c| if c.is_control() { REPLACEMENT } else { c })
}

/// A log line as it is: it becomes one field, and the log's format escapes fields.
pub fn line(text: &str, bytes_max: usize) -> String {
    cut(text, bytes_max, |c| c)
}

fn cut(text: &str, bytes_max: usize, replace: impl Fn(char) -> char) -> String {
    let mut kept = String::with_capacity(text.len().min(bytes_max));
    // Where to cut so that the mark still fits, should the rest turn out to be too long.
    let mut cut_at = 0;
    for c in text.chars().map(replace) {
        if kept.len() + c.len_utf8() > bytes_max {
            kept.truncate(cut_at);
            if bytes_max >= CUT_MARK.len() {
                kept.push_str(CUT_MARK);
            }
            return kept;
        }
        kept.push(c);
        if kept.len() + CUT_MARK.len() <= bytes_max {
            cut_at = kept.len();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_within_its_limit_is_kept_and_longer_text_is_cut_with_a_mark() {
        assert_eq!(prose("short", 5), "short");
        assert_eq!(prose("longer", 5), "lo…");
        assert_eq!(prose("ééé", 6), "ééé");
        assert_eq!(prose("éééé", 6), "é…");
        assert_eq!(prose("abc", 2), "");
        assert_eq!(prose(&"x".repeat(10_000_000), 2048).len(), 2048);
    }

    #[test]
    fn no_limit_splits_a_character_or_is_passed() {
        for bytes_max in 0..20 {
            let kept = prose("a\0é\u{1b}[31m日本", bytes_max);
            assert!(kept.len() <= bytes_max, "{bytes_max}: {kept:?}");
        }
    }

    #[test]
    fn control_characters_are_replaced_and_prose_keeps_its_lines() {
        assert_eq!(prose("a\0b\nc\td\u{1b}[31m", 100), "a\u{fffd}b\nc\td\u{fffd}[31m");
        assert_eq!(word("a\0b\nc", 100), "a\u{fffd}b\u{fffd}c");
    }
}
