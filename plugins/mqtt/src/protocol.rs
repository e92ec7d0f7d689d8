//! The packets a publisher sends and gets, of MQTT 5.0 and 3.1.1 (OASIS). Written here, because the crates that
//! do no I/O bring a state machine for both sides and some twenty more crates for these nine packets.

use crate::settings::{Qos, Version};

/// The longest packet that a broker may send a client that subscribes to nothing.
const PACKET_MAX: usize = 256 << 10;

/// What a client says at first.
#[derive(Clone, Debug, Default)]
pub struct Connect<'a> {
    pub client_id: &'a str,
    pub user: Option<&'a str>,
    pub password: Option<&'a [u8]>,
    pub keep_alive_s: u16,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish<'a> {
    pub topic: String,
    pub retain: bool,
    pub expiry_s: Option<u32>,
    pub content_type: Option<String>,
    pub user: Vec<(String, String)>,
    pub payload: std::borrow::Cow<'a, [u8]>,
}

/// What a broker says of itself when it takes a client in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Messages that may be under way at once.
    pub receive_max: u16,
    pub qos_max: u8,
    pub retain: bool,
    pub packet_max: Option<u32>,
    /// The broker's own wish, in place of the client's.
    pub keep_alive_s: Option<u16>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { receive_max: u16::MAX, qos_max: 2, retain: true, packet_max: None, keep_alive_s: None }
    }
}

/// What a broker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Connected {
        code: u8,
        reason: String,
        limits: Limits,
    },
    /// Of QoS 1; the reason is a text of the broker's own.
    Acknowledged {
        id: u16,
        code: u8,
        reason: String,
    },
    Received {
        id: u16,
        code: u8,
        reason: String,
    },
    Completed {
        id: u16,
        code: u8,
        reason: String,
    },
    Pong,
    Disconnected {
        code: u8,
        reason: String,
    },
}

/// The first whole packet and its length, if there is one.
pub fn parse(version: Version, bytes: &[u8]) -> Result<Option<(usize, Packet)>, String> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
    // Of what a publisher gets, no packet has a flag.
    if first & 0x0f != 0 || ![2, 4, 5, 7, 13, 14].contains(&(first >> 4)) {
        return Err(format!("a packet that begins {first:#04x}"));
    }
    let Some((length, used)) = varint(rest)? else { return Ok(None) };
    if length > PACKET_MAX {
        return Err(format!("a packet of {length} bytes"));
    }
    let start = 1 + used;
    let Some(body) = bytes.get(start..start + length) else { return Ok(None) };
    let mut body = Reader(body);
    let packet = match first >> 4 {
        2 => connected(version, &mut body)?,
        4 => acknowledgement(&mut body, |id, code, reason| Packet::Acknowledged { id, code, reason })?,
        5 => acknowledgement(&mut body, |id, code, reason| Packet::Received { id, code, reason })?,
        7 => acknowledgement(&mut body, |id, code, reason| Packet::Completed { id, code, reason })?,
        13 => Packet::Pong,
        _ => {
            let code = body.byte().unwrap_or(0);
            Packet::Disconnected { code, reason: properties(&mut body)?.0 }
        }
    };
    Ok(Some((start + length, packet)))
}

fn connected(version: Version, body: &mut Reader) -> Result<Packet, String> {
    let short = || "a CONNACK that ends too soon".to_owned();
    body.byte().ok_or_else(short)?;
    let code = body.byte().ok_or_else(short)?;
    let (reason, limits) = match version {
        Version::V5 => properties(body)?,
        Version::V3 => (String::new(), Limits::default()),
    };
    Ok(Packet::Connected { code, reason, limits })
}

fn acknowledgement(
    body: &mut Reader,
    make: impl FnOnce(u16, u8, String) -> Packet,
) -> Result<Packet, String> {
    let id = body.u16().ok_or("an acknowledgement of no packet")?;
    let code = body.byte().unwrap_or(0);
    Ok(make(id, code, properties(body)?.0))
}

/// The reason in words and the limits, of all there may be.
fn properties(body: &mut Reader) -> Result<(String, Limits), String> {
    let (mut reason, mut limits) = (String::new(), Limits::default());
    let Some((length, used)) = varint(body.0)? else { return Ok((reason, limits)) };
    let all = body.0.get(used..used + length).ok_or("properties that end too soon")?;
    let mut all = Reader(all);
    while let Some(name) = all.byte() {
        let known = match name {
            0x1f => all.text().map(|text| reason = text),
            0x21 => all.u16().map(|number| limits.receive_max = number.max(1)),
            0x24 => all.byte().map(|number| limits.qos_max = number),
            0x25 => all.byte().map(|number| limits.retain = number != 0),
            0x27 => all.u32().map(|number| limits.packet_max = Some(number)),
            0x13 => all.u16().map(|number| limits.keep_alive_s = Some(number)),
            // Of no use to a publisher, but each of a known shape.
            0x12 | 0x15 | 0x16 | 0x1a | 0x1c => all.text().map(drop),
            0x11 => all.u32().map(drop),
            0x22 => all.u16().map(drop),
            0x28..=0x2a => all.byte().map(drop),
            0x26 => all.text().and_then(|_| all.text()).map(drop),
            _ => None,
        };
        known.ok_or_else(|| format!("the property {name:#04x}"))?;
    }
    Ok((reason, limits))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// A number of seven bits a byte, the lowest first, and how many bytes it takes.
fn varint(bytes: &[u8]) -> Result<Option<(usize, usize)>, String> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err("a length of more than four bytes".to_owned()) }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return;
        }
    }
}

/// Cut at what its length can say; whoever calls has checked it.
fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(&text[..usize::from(length)]);
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(body.len() + 5);
    bytes.push(first);
    put_varint(&mut bytes, body.len());
    bytes.extend(body);
    bytes
}

pub fn connect(version: Version, connect: &Connect) -> Vec<u8> {
    let mut body = Vec::new();
    put_text(&mut body, b"MQTT");
    body.push(if version == Version::V5 { 5 } else { 4 });
    let has = |is_there: bool, bit: u8| if is_there { 1 << bit } else { 0 };
    // A session of its own each time: bit 1.
    body.push(has(connect.user.is_some(), 7) | has(connect.password.is_some(), 6) | 0b10);
    body.extend(connect.keep_alive_s.to_be_bytes());
    if version == Version::V5 {
        put_varint(&mut body, 0);
    }
    put_text(&mut body, connect.client_id.as_bytes());
    for text in [connect.user.map(str::as_bytes), connect.password].into_iter().flatten() {
        put_text(&mut body, text);
    }
    packet(0x10, &body)
}

pub fn publish(version: Version, qos: Qos, id: u16, message: &Publish) -> Vec<u8> {
    let mut body = Vec::with_capacity(message.payload.len() + 256);
    put_text(&mut body, message.topic.as_bytes());
    body.extend(id.to_be_bytes());
    if version == Version::V5 {
        let mut properties = Vec::new();
        if let Some(expiry_s) = message.expiry_s {
            properties.push(0x02);
            properties.extend(expiry_s.to_be_bytes());
        }
        if let Some(content_type) = &message.content_type {
            properties.push(0x03);
            put_text(&mut properties, content_type.as_bytes());
        }
        for (name, value) in &message.user {
            properties.push(0x26);
            put_text(&mut properties, name.as_bytes());
            put_text(&mut properties, value.as_bytes());
        }
        put_varint(&mut body, properties.len());
        body.extend(properties);
    }
    body.extend_from_slice(&message.payload);
    let qos = if qos == Qos::ExactlyOnce { 2 } else { 1 };
    packet(0x30 | qos << 1 | u8::from(message.retain), &body)
}

/// The second step of QoS 2.
pub fn release(id: u16) -> Vec<u8> {
    packet(0x62, &id.to_be_bytes())
}

pub const PING: &[u8] = &[0xc0, 0];
pub const DISCONNECT: &[u8] = &[0xe0, 0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_read_when_it_is_whole_and_not_before() {
        let none = String::new;
        let limits = Limits { receive_max: 20, packet_max: Some(2_000), ..Limits::default() };
        for (bytes, packet) in [
            (
                &b"\x20\x0b\x00\x00\x08\x21\x00\x14\x27\x00\x00\x07\xd0"[..],
                Packet::Connected { code: 0, reason: none(), limits },
            ),
            (b"\x40\x02\x00\x07", Packet::Acknowledged { id: 7, code: 0, reason: none() }),
            (b"\x40\x03\x00\x07\x10", Packet::Acknowledged { id: 7, code: 0x10, reason: none() }),
            (
                b"\x40\x09\x00\x07\x87\x05\x1f\x00\x02no",
                Packet::Acknowledged { id: 7, code: 0x87, reason: "no".into() },
            ),
            (b"\x50\x02\x01\x00", Packet::Received { id: 256, code: 0, reason: none() }),
            (b"\x70\x04\x01\x00\x00\x00", Packet::Completed { id: 256, code: 0, reason: none() }),
            (b"\xd0\x00", Packet::Pong),
            (b"\xe0\x02\x8b\x00", Packet::Disconnected { code: 0x8b, reason: none() }),
            (b"\xe0\x00", Packet::Disconnected { code: 0, reason: none() }),
        ] {
            for length in 0..bytes.len() {
                assert_eq!(parse(Version::V5, &bytes[..length]), Ok(None), "{length} bytes of {packet:?}");
            }
            assert_eq!(parse(Version::V5, &[bytes, b"\xd0"].concat()), Ok(Some((bytes.len(), packet))));
        }
        let connected = Packet::Connected { code: 5, reason: none(), limits: Limits::default() };
        assert_eq!(parse(Version::V3, b"\x20\x02\x00\x05"), Ok(Some((4, connected))));
    }

    #[test]
    fn what_is_no_mqtt_is_an_error() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request"[..],
            b"\x80\x00",
            b"\x20\x01\x00",
            b"\x40\x01\x00",
            b"\x40\xff\xff\xff\xff",
            b"\x40\xff\xff\xff\x7f",
            b"\x40\x05\x00\x07\x00\x01\x77",
        ] {
            assert!(parse(Version::V5, bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn what_a_client_says_is_spelled_as_the_standard_does() {
        let hello = Connect { client_id: "c", user: Some("u"), password: Some(b"p"), keep_alive_s: 30 };
        assert_eq!(
            connect(Version::V5, &hello),
            b"\x10\x14\x00\x04MQTT\x05\xc2\x00\x1e\x00\x00\x01c\x00\x01u\x00\x01p"
        );
        let bare = Connect { user: None, password: None, ..hello };
        assert_eq!(connect(Version::V3, &bare), b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x1e\x00\x01c");
        let message = Publish {
            topic: "a/b".into(),
            retain: true,
            expiry_s: Some(60),
            content_type: Some("t".into()),
            user: vec![("n".into(), "v".into())],
            payload: b"hi"[..].into(),
        };
        assert_eq!(
            publish(Version::V5, Qos::ExactlyOnce, 7, &message),
            b"\x35\x1a\x00\x03a/b\x00\x07\x10\x02\x00\x00\x00\x3c\x03\x00\x01t\x26\x00\x01n\x00\x01vhi"
        );
        assert_eq!(publish(Version::V3, Qos::AtLeastOnce, 7, &message), b"\x33\x09\x00\x03a/b\x00\x07hi");
        assert_eq!(release(7), b"\x62\x02\x00\x07");
        let mut long = Vec::new();
        put_varint(&mut long, 1_048_576);
        assert_eq!((varint(&long), long.len()), (Ok(Some((1_048_576, 3))), 3));
    }
}
