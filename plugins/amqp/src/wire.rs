//! Frames and the values in them, as AMQP 0-9-1 (4.2) and RabbitMQ's errata write them.

/// What a client says first.
pub const PROTOCOL: &[u8; 8] = b"AMQP\x00\x00\x09\x01";
/// Of a frame besides its payload.
pub const FRAME_OVERHEAD: usize = 8;
/// What every peer must take (4.2.3): whoever says less speaks no AMQP 0-9-1.
pub const FRAME_BYTES_MIN: u32 = 4096;
/// A name, such as an exchange's or a header's, is no longer.
pub const SHORT_BYTES_MAX: usize = 255;

const FRAME_END: u8 = 0xce;
/// No frame we are sent is larger: the server's own most is 128 KiB.
const FRAME_BYTES_MAX: usize = 16 << 20;
const HEADER_BYTES: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Method,
    Header,
    Body,
    Heartbeat,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Method => 1,
            Self::Header => 2,
            Self::Body => 3,
            Self::Heartbeat => 8,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::Method, Self::Header, Self::Body, Self::Heartbeat]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub channel: u16,
    pub payload: Vec<u8>,
}

/// The first whole frame of these bytes, and its length.
pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Frame)>, String> {
    // A server that speaks another version says which, in place of a frame, and closes.
    if bytes.starts_with(b"AMQP") {
        return Err("the server speaks another version of AMQP than 0-9-1".to_owned());
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let kind =
        Kind::of(head[0]).ok_or_else(|| format!("a frame of type {}; is this an AMQP port?", head[0]))?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if size > FRAME_BYTES_MAX {
        return Err(format!("a frame of {size} bytes"));
    }
    let Some(end) = rest.get(size) else { return Ok(None) };
    if *end != FRAME_END {
        return Err("a frame without its end".to_owned());
    }
    let frame =
        Frame { kind, channel: u16::from_be_bytes([head[1], head[2]]), payload: rest[..size].to_vec() };
    Ok(Some((size + FRAME_OVERHEAD, frame)))
}

pub fn write_frame(into: &mut Vec<u8>, kind: Kind, channel: u16, payload: &[u8]) {
    into.push(kind.number());
    into.extend(channel.to_be_bytes());
    into.extend((payload.len() as u32).to_be_bytes());
    into.extend(payload);
    into.push(FRAME_END);
}

pub fn write_short(into: &mut Vec<u8>, text: &str) {
    debug_assert!(text.len() <= SHORT_BYTES_MAX);
    into.push(text.len() as u8);
    into.extend(text.as_bytes());
}

pub fn write_long(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend((bytes.len() as u32).to_be_bytes());
    into.extend(bytes);
}

/// What we put into tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Bool(bool),
    Text(&'a str),
    Table(Vec<(&'a str, Value<'a>)>),
}

pub fn write_table<'a>(into: &mut Vec<u8>, fields: impl IntoIterator<Item = (&'a str, Value<'a>)>) {
    let mut table = Vec::new();
    for (name, value) in fields {
        write_short(&mut table, name);
        match value {
            Value::Bool(value) => table.extend([b't', u8::from(value)]),
            Value::Text(text) => {
                table.push(b'S');
                write_long(&mut table, text.as_bytes());
            }
            Value::Table(fields) => {
                table.push(b'F');
                write_table(&mut table, fields);
            }
        }
    }
    write_long(into, &table);
}

/// Reads a frame's payload from its front.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn of(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or("a frame is shorter than what it should hold")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("it is as long"))
    }

    pub fn octet(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    pub fn short(&mut self) -> Result<u16, String> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn long(&mut self) -> Result<u32, String> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn long_long(&mut self) -> Result<u64, String> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub fn short_text(&mut self) -> Result<String, String> {
        let length = self.octet()?.into();
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// A long string, or a table as it is.
    pub fn long_bytes(&mut self) -> Result<&'a [u8], String> {
        let length = self.long()? as usize;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_once_it_is_whole() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Kind::Body, 1, b"hello");
        assert_eq!(bytes, b"\x03\x00\x01\x00\x00\x00\x05hello\xce");
        for short in 0..bytes.len() {
            assert_eq!(parse(&bytes[..short]), Ok(None), "{short} bytes");
        }
        let whole = Frame { kind: Kind::Body, channel: 1, payload: b"hello".to_vec() };
        bytes.extend(b"\x08\x00");
        assert_eq!(parse(&bytes), Ok(Some((13, whole))));
    }

    #[test]
    fn what_is_no_frame_of_this_protocol_is_told() {
        for (bytes, word) in [
            (&b"AMQP\x00\x01\x00\x00"[..], "another version"),
            (b"HTTP/1.1 400", "is this an AMQP port?"),
            (b"\x01\x00\x00\xff\xff\xff\xff", "4294967295 bytes"),
            (b"\x08\x00\x00\x00\x00\x00\x00x", "without its end"),
        ] {
            let error = parse(bytes).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_table_is_written_with_its_length_and_the_kinds_of_its_values() {
        let mut bytes = Vec::new();
        let inner = vec![("c", Value::Bool(true))];
        write_table(&mut bytes, [("a", Value::Text("b")), ("t", Value::Table(inner))]);
        let expected: &[u8] = b"\x00\x00\x00\x13\x01aS\x00\x00\x00\x01b\x01tF\x00\x00\x00\x04\x01ct\x01";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_payload_that_ends_too_early_is_an_error() {
        assert_eq!(Reader::of(b"\x00\x07\x02ab").short(), Ok(7));
        assert!(Reader::of(b"\x05ab").short_text().is_err());
        assert!(Reader::of(b"\x00\x00\x01\x00abc").long_bytes().is_err());
        assert!(Reader::of(b"\x00").long_long().is_err());
    }
}
