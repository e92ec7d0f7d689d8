//! Endpoints of the config, through `outhaul:net`.

use std::cell::RefCell;

use crate::bindings::exports::outhaul::delivery::deliver::Event;
use crate::bindings::outhaul::net::net::{self, ConnectError};
use crate::bindings::wasi::io::streams::{InputStream, OutputStream};
use crate::{header, streams};

type Connection = (InputStream, OutputStream);

thread_local! {
    static KEPT: RefCell<Vec<Connection>> = const { RefCell::new(Vec::new()) };
}

fn connect(event: &Event) -> Result<Connection, String> {
    net::connect(endpoint(event), header(event, "address")).map_err(refused)
}

fn endpoint(event: &Event) -> &str {
    header(event, "endpoint").unwrap_or("broker")
}

fn refused(error: ConnectError) -> String {
    match error {
        ConnectError::Denied(text) => format!("denied: {text}"),
        ConnectError::Unreachable(text) => format!("unreachable: {text}"),
        ConnectError::Tls(text) => format!("tls: {text}"),
        ConnectError::Timeout(text) => format!("timeout: {text}"),
    }
}

/// Hears `greeting` bytes in the clear, says one line, starts TLS if that is wanted, and has its payload echoed.
/// With `drop`, the streams are gone before it starts.
pub fn start_tls(event: &Event) -> Result<String, String> {
    let connection = net::connect_in_clear(endpoint(event), header(event, "address")).map_err(refused)?;
    let (input, output) = (connection.input, connection.output);
    let greeting: u64 = header(event, "greeting").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let mut heard = Vec::new();
    while (heard.len() as u64) < greeting {
        let more = input.blocking_read(greeting - heard.len() as u64);
        heard.extend(more.map_err(|error| streams::told("read", error))?);
    }
    let Some(tls) = connection.tls else {
        return Ok(format!("heard={} tls=none", String::from_utf8_lossy(&heard)));
    };
    output.blocking_write_and_flush(b"tls, please\n").map_err(|error| streams::told("write", error))?;
    if header(event, "drop").is_some() {
        drop((input, output));
        return net::TlsStart::start(tls).map(|()| "started".to_owned()).map_err(refused);
    }
    match net::TlsStart::start(tls).map_err(refused) {
        Ok(()) => streams::echo(&input, &output, &event.payload),
        Err(why) => {
            // What was received before may be read all the same; after it comes the end.
            while input.blocking_read(64).is_ok() {}
            Err(format!("{why}; then closed"))
        }
    }
}

pub fn echo(event: &Event) -> Result<String, String> {
    let (input, output) = connect(event)?;
    streams::echo(&input, &output, &event.payload)
}

/// One connection for all calls of the instance.
pub fn keep(event: &Event) -> Result<String, String> {
    KEPT.with_borrow_mut(|kept| {
        if kept.is_empty() {
            kept.push(connect(event)?);
        }
        let (input, output) = &kept[0];
        streams::echo(input, output, &event.payload)
    })
}

/// Opens connections and keeps them, until one is refused.
pub fn many(event: &Event) -> Result<String, String> {
    let mut kept = Vec::new();
    loop {
        match connect(event) {
            Ok(connection) => kept.push(connection),
            Err(refused) => return Ok(format!("opened={} then {refused}", kept.len())),
        }
    }
}

pub fn read(event: &Event) -> Result<String, String> {
    let (input, _output) = connect(event)?;
    let received = streams::read_to_end(&input)?;
    Ok(format!("read={}", String::from_utf8_lossy(&received)))
}

/// Sends, ends its own side, and reads what the other side still says.
pub fn last_word(event: &Event) -> Result<String, String> {
    let (input, output) = connect(event)?;
    for piece in event.payload.chunks(4096) {
        output.blocking_write_and_flush(piece).map_err(|error| streams::told("write", error))?;
    }
    drop(output);
    let received = streams::read_to_end(&input)?;
    Ok(format!("read={}", String::from_utf8_lossy(&received)))
}

/// Writes for ever to one who may not read.
pub fn flood(event: &Event) -> Result<String, String> {
    let (_input, output) = connect(event)?;
    loop {
        output.blocking_write_and_flush(&[7; 4096]).map_err(|error| streams::told("write", error))?;
    }
}

pub fn overwrite(event: &Event) -> Result<String, String> {
    let (_input, output) = connect(event)?;
    let room = output.check_write().map_err(|error| streams::told("check-write", error))? as usize;
    output.write(&vec![7; room + 1]).map_err(|error| streams::told("write", error))?;
    Ok("written".to_owned())
}
