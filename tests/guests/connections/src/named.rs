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
    let endpoint = header(event, "endpoint").unwrap_or("broker");
    net::connect(endpoint, header(event, "address")).map_err(|error| match error {
        ConnectError::Denied(text) => format!("denied: {text}"),
        ConnectError::Unreachable(text) => format!("unreachable: {text}"),
        ConnectError::Tls(text) => format!("tls: {text}"),
        ConnectError::Timeout(text) => format!("timeout: {text}"),
    })
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
