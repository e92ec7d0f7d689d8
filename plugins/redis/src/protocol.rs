//! Redis's protocol, RESP2: commands as bytes, and answers from bytes.

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;

/// What Redis answers to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Text(String),
    Number(i64),
    None,
    List(Vec<Answer>),
    Error(String),
}

/// The first whole answer and its length, if there is one.
pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Answer)>, String> {
    let decoded = decode(bytes).map_err(|error| error.to_string())?;
    Ok(decoded.map(|(frame, length)| (length, answer(frame))))
}

fn answer(frame: OwnedFrame) -> Answer {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match frame {
        OwnedFrame::SimpleString(bytes) | OwnedFrame::BulkString(bytes) => Answer::Text(text(bytes)),
        OwnedFrame::Error(error) => Answer::Error(error),
        OwnedFrame::Integer(number) => Answer::Number(number),
        OwnedFrame::Array(frames) => Answer::List(frames.into_iter().map(answer).collect()),
        OwnedFrame::Null => Answer::None,
    }
}

/// A command: an array of strings. Written here, because the codec takes them only as frames, each a copy.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_read_when_it_is_whole_and_not_before() {
        let text = |text: &str| Answer::Text(text.to_owned());
        for (bytes, answer) in [
            (&b"+OK\r\n"[..], text("OK")),
            (b":-7\r\n", Answer::Number(-7)),
            (b"$-1\r\n", Answer::None),
            (b"$4\r\na\r\nb\r\n", text("a\r\nb")),
            (b"-NOAUTH no\r\n", Answer::Error("NOAUTH no".into())),
            (b"*2\r\n$3\r\n1-0\r\n:1\r\n", Answer::List(vec![text("1-0"), Answer::Number(1)])),
        ] {
            for length in 0..bytes.len() {
                assert_eq!(parse(&bytes[..length]), Ok(None), "{length} bytes of {answer:?}");
            }
            assert_eq!(parse(&[bytes, b"+more"].concat()), Ok(Some((bytes.len(), answer))));
        }
    }

    #[test]
    fn what_is_no_redis_is_an_error() {
        assert!(parse(b"HTTP/1.1 400 Bad Request\r\n").is_err());
    }

    #[test]
    fn a_command_counts_its_words_and_their_bytes() {
        assert_eq!(
            command(&[b"SET", b"k", b"\r\n\xff"]),
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n\r\n\xff\r\n"
        );
    }
}
