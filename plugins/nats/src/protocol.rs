//! NATS's client protocol: what the server says, from bytes, and what a client says, as bytes.
//! <https://docs.nats.io/reference/reference-protocols/nats-protocol>

use serde::Deserialize;

/// Longer control lines are no NATS. A cluster's `INFO` names all its servers.
const LINE_MAX: usize = 64 << 10;

/// What the server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Info {
    pub version: String,
    pub server_name: String,
    /// Bytes of headers and payload together.
    pub max_payload: usize,
    pub headers: bool,
    pub tls_required: bool,
    pub tls_available: bool,
    /// To be signed at the login.
    pub nonce: String,
    /// The server is about to stop, and wants its clients to go elsewhere.
    pub ldm: bool,
}

/// One thing the server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Info(Box<Info>),
    Message(Message),
    Ping,
    Pong,
    Ok,
    Err(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub subject: String,
    /// Of the headers' first line, such as 503 where nobody answers.
    pub status: Option<u16>,
    pub payload: Vec<u8>,
}

/// The first whole operation and its length, if there is one.
pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Op)>, String> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() > LINE_MAX { Err("a line without an end".to_owned()) } else { Ok(None) };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "a line that is not text".to_owned())?;
    let after = end + 2;
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let op = match word.to_ascii_uppercase().as_str() {
        "MSG" | "HMSG" => return message(word.len() == 4, rest, after, bytes),
        "INFO" => Op::Info(serde_json::from_str(rest).map_err(|error| format!("INFO: {error}"))?),
        "PING" => Op::Ping,
        "PONG" => Op::Pong,
        "+OK" => Op::Ok,
        "-ERR" => Op::Err(rest.trim().trim_matches('\'').to_owned()),
        _ => return Err(format!("{:?}", line.chars().take(40).collect::<String>())),
    };
    Ok(Some((after, op)))
}

/// `subject sid [reply] [header-bytes] total-bytes`, then the bytes.
fn message(has_headers: bool, line: &str, start: usize, bytes: &[u8]) -> Result<Option<(usize, Op)>, String> {
    let wrong = || format!("a message that begins {line:?}");
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |back: usize| -> Option<usize> { words.get(words.len().checked_sub(back)?)?.parse().ok() };
    let total = number(1).ok_or_else(wrong)?;
    let headers = if has_headers { number(2).ok_or_else(wrong)? } else { 0 };
    let least = if has_headers { 4 } else { 3 };
    if words.len() < least || headers > total {
        return Err(wrong());
    }
    let end = start.checked_add(total).and_then(|end| end.checked_add(2)).ok_or_else(wrong)?;
    let Some(body) = bytes.get(start..end) else { return Ok(None) };
    let (head, payload) = body[..total].split_at(headers);
    let message = Message { subject: words[0].to_owned(), status: status(head), payload: payload.to_vec() };
    Ok(Some((end, Op::Message(message))))
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.strip_prefix(b"NATS/1.0 ")?;
    std::str::from_utf8(line.get(..3)?).ok()?.parse().ok()
}

/// The block of headers of a message.
pub fn headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut block = b"NATS/1.0\r\n".to_vec();
    for (name, value) in headers {
        block.extend([name, ": ", value, "\r\n"].concat().into_bytes());
    }
    block.extend(b"\r\n");
    block
}

/// What stands before headers and payload; after them comes an end of line.
pub fn publish(subject: &str, reply: Option<&str>, headers: usize, payload: usize) -> String {
    let reply = reply.map(|reply| format!("{reply} ")).unwrap_or_default();
    let total = headers + payload;
    match headers {
        0 => format!("PUB {subject} {reply}{total}\r\n"),
        _ => format!("HPUB {subject} {reply}{headers} {total}\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(subject: &str, status: Option<u16>, payload: &[u8]) -> Op {
        Op::Message(Message { subject: subject.into(), status, payload: payload.to_vec() })
    }

    #[test]
    fn each_operation_is_read_when_it_is_whole_and_not_before() {
        let info = Info { max_payload: 1_048_576, headers: true, nonce: "n".into(), ..Info::default() };
        for (bytes, op) in [
            (
                &b"INFO {\"max_payload\":1048576,\"headers\":true,\"nonce\":\"n\",\"other\":1} \r\n"[..],
                Op::Info(Box::new(info)),
            ),
            (b"PING\r\n", Op::Ping),
            (b"pong\r\n", Op::Pong),
            (b"+OK\r\n", Op::Ok),
            (b"-ERR 'Authorization Violation'\r\n", Op::Err("Authorization Violation".into())),
            (b"MSG _INBOX.a.7 1 4\r\n\r\n\r\n\r\n", message("_INBOX.a.7", None, b"\r\n\r\n")),
            (b"MSG s 1 reply 0\r\n\r\n", message("s", None, b"")),
            (b"HMSG _INBOX.a.7 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", message("_INBOX.a.7", Some(503), b"")),
            (b"HMSG s 1 r 18 20\r\nNATS/1.0\r\na: b\r\n\r\nhi\r\n", message("s", None, b"hi")),
        ] {
            for length in 0..bytes.len() {
                assert_eq!(parse(&bytes[..length]), Ok(None), "{length} bytes of {op:?}");
            }
            let more = [bytes, b"PING\r\n"].concat();
            assert_eq!(parse(&more), Ok(Some((bytes.len(), op))));
        }
    }

    #[test]
    fn what_is_no_nats_is_an_error() {
        let endless = vec![b'x'; LINE_MAX + 1];
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"MSG s 1\r\n",
            b"MSG s 1 many\r\n",
            b"HMSG s 1 9 3\r\n",
            b"INFO {\r\n",
            b"\xff\xfe\r\n",
            &endless,
        ] {
            assert!(parse(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_a_client_says_is_spelled_as_the_protocol_does() {
        let block = headers([("Nats-Msg-Id", "order-1"), ("A", "b")]);
        assert_eq!(block, b"NATS/1.0\r\nNats-Msg-Id: order-1\r\nA: b\r\n\r\n");
        assert_eq!(
            publish("order.created", Some("_INBOX.a.1"), block.len(), 2),
            "HPUB order.created _INBOX.a.1 40 42\r\n"
        );
        assert_eq!(publish("s", None, 0, 5), "PUB s 5\r\n");
    }
}
