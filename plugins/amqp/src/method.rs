//! The methods that a publisher needs: those it sends, and those it is sent.

use crate::wire::{self, Kind, Reader, Value};

/// The one channel that is used; 0 is the connection's own.
pub const CHANNEL: u16 = 1;

/// What the server says.
#[derive(Debug, PartialEq, Eq)]
pub enum Method {
    /// Names of mechanisms, with a space between.
    Start {
        mechanisms: String,
    },
    /// It wants a second answer, which neither PLAIN nor EXTERNAL has.
    Secure,
    Tune {
        channel_max: u16,
        frame_max: u32,
        heartbeat_secs: u16,
    },
    OpenOk,
    Close(Closing),
    CloseOk,
    Blocked {
        reason: String,
    },
    Unblocked,
    ChannelOpenOk,
    ChannelClose(Closing),
    ChannelCloseOk,
    ExchangeDeclareOk,
    ConfirmSelectOk,
    /// Followed by the message's header and body.
    Return {
        code: u16,
        text: String,
    },
    Ack {
        tag: u64,
        multiple: bool,
    },
    Nack {
        tag: u64,
        multiple: bool,
    },
    /// Of no concern to a publisher.
    Other(u16, u16),
}

/// Why the server ends a channel or the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    pub code: u16,
    pub text: String,
}

pub fn parse(payload: &[u8]) -> Result<Method, String> {
    let mut reader = Reader::of(payload);
    let (class, method) = (reader.short()?, reader.short()?);
    Ok(match (class, method) {
        (10, 10) => {
            let (_version, _properties) = (reader.short()?, reader.long_bytes()?);
            Method::Start { mechanisms: String::from_utf8_lossy(reader.long_bytes()?).into_owned() }
        }
        (10, 20) => Method::Secure,
        (10, 30) => Method::Tune {
            channel_max: reader.short()?,
            frame_max: reader.long()?,
            heartbeat_secs: reader.short()?,
        },
        (10, 41) => Method::OpenOk,
        (10, 50) => Method::Close(closing(&mut reader)?),
        (10, 51) => Method::CloseOk,
        (10, 60) => Method::Blocked { reason: reader.short_text()? },
        (10, 61) => Method::Unblocked,
        (20, 11) => Method::ChannelOpenOk,
        (20, 40) => Method::ChannelClose(closing(&mut reader)?),
        (20, 41) => Method::ChannelCloseOk,
        (40, 11) => Method::ExchangeDeclareOk,
        (60, 50) => Method::Return { code: reader.short()?, text: reader.short_text()? },
        (60, 80) => Method::Ack { tag: reader.long_long()?, multiple: reader.octet()? & 1 != 0 },
        (60, 120) => Method::Nack { tag: reader.long_long()?, multiple: reader.octet()? & 1 != 0 },
        (85, 11) => Method::ConfirmSelectOk,
        (class, method) => Method::Other(class, method),
    })
}

fn closing(reader: &mut Reader) -> Result<Closing, String> {
    Ok(Closing { code: reader.short()?, text: reader.short_text()? })
}

fn frame(channel: u16, class: u16, method: u16, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(class.to_be_bytes());
    payload.extend(method.to_be_bytes());
    fill(&mut payload);
    let mut bytes = Vec::new();
    wire::write_frame(&mut bytes, Kind::Method, channel, &payload);
    bytes
}

/// The answer to `Start`. The capabilities make the server tell of a refused login and of a block, in
/// place of closing the connection or saying nothing.
pub fn start_ok(mechanism: &str, response: &[u8]) -> Vec<u8> {
    let able = ["authentication_failure_close", "connection.blocked", "publisher_confirms", "basic.nack"];
    let able = able.map(|name| (name, Value::Bool(true))).to_vec();
    let properties = [
        ("product", Value::Text("Outhaul")),
        ("version", Value::Text(env!("CARGO_PKG_VERSION"))),
        ("connection_name", Value::Text("outhaul")),
        ("capabilities", Value::Table(able)),
    ];
    frame(0, 10, 11, |payload| {
        wire::write_table(payload, properties);
        wire::write_short(payload, mechanism);
        wire::write_long(payload, response);
        wire::write_short(payload, "en_US");
    })
}

pub fn tune_ok(channel_max: u16, frame_max: u32, heartbeat_secs: u16) -> Vec<u8> {
    frame(0, 10, 31, |payload| {
        payload.extend(channel_max.to_be_bytes());
        payload.extend(frame_max.to_be_bytes());
        payload.extend(heartbeat_secs.to_be_bytes());
    })
}

pub fn open(vhost: &str) -> Vec<u8> {
    frame(0, 10, 40, |payload| {
        wire::write_short(payload, vhost);
        payload.extend([0, 0]);
    })
}

/// The farewell: 200, and no method to blame.
pub fn close() -> Vec<u8> {
    frame(0, 10, 50, |payload| {
        payload.extend(200_u16.to_be_bytes());
        wire::write_short(payload, "the destination's instance ends");
        payload.extend([0; 4]);
    })
}

pub fn close_ok() -> Vec<u8> {
    frame(0, 10, 51, |_| ())
}

pub fn channel_open() -> Vec<u8> {
    frame(CHANNEL, 20, 10, |payload| payload.push(0))
}

pub fn channel_close_ok() -> Vec<u8> {
    frame(CHANNEL, 20, 41, |_| ())
}

pub fn confirm_select() -> Vec<u8> {
    frame(CHANNEL, 85, 10, |payload| payload.push(0))
}

/// Asks whether the exchange is there, whatever its type.
pub fn exchange_declare_passive(exchange: &str) -> Vec<u8> {
    frame(CHANNEL, 40, 10, |payload| {
        payload.extend([0, 0]);
        wire::write_short(payload, exchange);
        wire::write_short(payload, "");
        payload.push(0b0_0001);
        wire::write_table(payload, []);
    })
}

pub fn publish(exchange: &str, routing_key: &str, mandatory: bool) -> Vec<u8> {
    frame(CHANNEL, 60, 40, |payload| {
        payload.extend([0, 0]);
        wire::write_short(payload, exchange);
        wire::write_short(payload, routing_key);
        payload.push(u8::from(mandatory));
    })
}

pub fn heartbeat() -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::write_frame(&mut bytes, Kind::Heartbeat, 0, b"");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_read() {
        for (payload, method) in [
            (&b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c"[..], Method::Tune {
                channel_max: 2047,
                frame_max: 131_072,
                heartbeat_secs: 60,
            }),
            (b"\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x0ePLAIN AMQPLAIN\x00\x00\x00\x05en_US", Method::Start {
                mechanisms: "PLAIN AMQPLAIN".into(),
            }),
            (b"\x00\x0a\x00\x3c\x06memory", Method::Blocked { reason: "memory".into() }),
            (b"\x00\x14\x00\x28\x01\x94\x04gone\x00\x3c\x00\x28", Method::ChannelClose(Closing {
                code: 404,
                text: "gone".into(),
            })),
            (b"\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x07\x01", Method::Ack { tag: 7, multiple: true }),
            (b"\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x07\x02", Method::Nack { tag: 7, multiple: false }),
            (b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE\x00\x00", Method::Return { code: 312, text: "NO_ROUTE".into() }),
            (b"\x00\x3c\x00\x3c", Method::Other(60, 60)),
        ] {
            assert_eq!(parse(payload), Ok(method));
        }
        assert!(parse(b"\x00\x3c\x00\x50\x00").is_err());
    }

    #[test]
    fn what_is_sent_is_written_as_the_protocol_says() {
        assert_eq!(
            publish("orders", "a.b", true),
            b"\x01\x00\x01\x00\x00\x00\x12\x00\x3c\x00\x28\x00\x00\x06orders\x03a.b\x01\xce"
        );
        assert_eq!(
            tune_ok(1, 4_096, 60),
            b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1f\x00\x01\x00\x00\x10\x00\x00\x3c\xce"
        );
        assert_eq!(heartbeat(), b"\x08\x00\x00\x00\x00\x00\x00\xce");
    }
}
