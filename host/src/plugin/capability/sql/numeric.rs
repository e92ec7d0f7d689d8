//! PostgreSQL's `numeric` on the wire, to and from text: exact, and with its zeros, which types of
//! fixed precision would lose. Digits are four to a group; see `numeric_send` in the server's source.

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;

/// Digits on either side of the point; more than the server takes by far, and few enough to count.
const DIGITS_MAX: usize = 10_000;

pub fn to_text(bytes: &[u8]) -> Option<String> {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]])).collect();
    let [count, weight, sign, scale, groups @ ..] = &words[..] else { return None };
    if usize::from(*count) != groups.len() {
        return None;
    }
    let (weight, scale) = (weight.cast_signed(), usize::from(*scale));
    let sign = match *sign {
        POSITIVE => "",
        NEGATIVE => "-",
        NOT_A_NUMBER => return Some("NaN".to_owned()),
        INFINITY => return Some("Infinity".to_owned()),
        MINUS_INFINITY => return Some("-Infinity".to_owned()),
        _ => return None,
    };
    let group =
        |index: i32| usize::try_from(index).ok().and_then(|index| groups.get(index)).copied().unwrap_or(0);
    let whole: String = (0..=i32::from(weight)).map(|index| format!("{:04}", group(index))).collect();
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let first = i32::from(weight) + 1;
    let count = i32::try_from(scale.div_ceil(4)).ok()?;
    let part: String = (first..first + count).map(|index| format!("{:04}", group(index))).collect();
    let part = &part[..scale];
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") })
}

/// None if the text is no decimal number.
pub fn from_text(text: &str) -> Option<Vec<u8>> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (NEGATIVE, digits),
        None => (POSITIVE, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= DIGITS_MAX;
    if whole.is_empty() && part.is_empty() || !is_number(whole) || !is_number(part) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let before = whole.len().div_ceil(4);
    let padded = format!("{whole:0>width$}{part}", width = before * 4);
    let padded = format!("{padded:0<width$}", width = padded.len().next_multiple_of(4));
    let groups: Vec<u16> = padded.as_bytes().chunks(4).map(value_of).collect();
    // Zeros at either end are not sent; the weight and the scale say where they were.
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups[leading..].iter().rev().take_while(|group| **group == 0).count();
    let sent = &groups[leading..groups.len() - trailing];
    let weight =
        if sent.is_empty() { 0 } else { i16::try_from(before).ok()? - 1 - i16::try_from(leading).ok()? };
    let sign = if sent.is_empty() { POSITIVE } else { sign };
    let head =
        [u16::try_from(sent.len()).ok()?, weight.cast_unsigned(), sign, u16::try_from(part.len()).ok()?];
    Some(head.iter().chain(sent).flat_map(|word| word.to_be_bytes()).collect())
}

fn value_of(digits: &[u8]) -> u16 {
    digits.iter().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_as_it_was_with_its_zeros() {
        for text in [
            "0",
            "1",
            "-1",
            "12.50",
            "0.00",
            "0.0001",
            "-0.00010",
            "10000",
            "9999.9999",
            "123456789012345678901234567890",
            "1.00000000000000000000000000000000000000001",
            "100000000.5",
            "0.10",
        ] {
            let bytes = from_text(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(to_text(&bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn spellings_of_one_number_are_sent_alike() {
        for (spelt, plain) in [("+7", "7"), ("007", "7"), (".5", "0.5"), ("5.", "5"), ("-0", "0")] {
            assert_eq!(from_text(spelt), from_text(plain), "{spelt}");
        }
        for wrong in ["", ".", "-", "1e5", "1,5", " 1", "NaN", "0x1", "--1"] {
            assert_eq!(from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_the_server_sends_is_read() {
        // 12.5 with two digits after the point, as `select 12.50` sends it.
        assert_eq!(to_text(&[0, 2, 0, 0, 0, 0, 0, 2, 0, 12, 0x13, 0x88]).as_deref(), Some("12.50"));
        assert_eq!(to_text(&[0, 0, 0, 0, 0xC0, 0, 0, 0]).as_deref(), Some("NaN"));
        for wrong in [&[][..], &[0, 9, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 0x12, 0, 0, 0]] {
            assert_eq!(to_text(wrong), None);
        }
    }
}
