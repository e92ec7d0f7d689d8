//! Where the events come from: a page of the outbox at a time, or a line of a file.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::PathBuf;

use anyhow::Context as _;
use bytes::Bytes;

use super::ReplayArgs;
use crate::cli::lines::{Fields, Line};
use crate::cli::{Common, Context, Misuse};
use crate::domain::topic::{Pattern, check_topic};
use crate::domain::{Event, EventSeq, Timestamp};
use crate::store::{DeliveryStatus, RecordedDelivery};

/// Deliveries that one question looks at: few, so that it is answered at once on a busy database.
const PAGE_ROWS: u32 = 200;

/// An event to replay, and what came of it.
pub struct Recorded {
    pub event: Event,
    pub payload: Bytes,
    /// None of an event from a file.
    pub outcome: Option<String>,
}

pub enum Source {
    Outbox(Outbox),
    File(Lines),
}

impl Source {
    pub async fn open(
        common: &Common,
        args: &ReplayArgs,
        topics: Option<Pattern>,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let Some(file) = &args.events else {
            let (context, destination) = (Context::open(common).await?, args.destination.clone());
            return Ok(Self::Outbox(Outbox {
                context,
                destination,
                topics,
                page: VecDeque::new(),
                next: Some(None),
            }));
        };
        let topic = args.topic.clone().unwrap_or_default();
        check_topic(&topic).map_err(|why| Misuse(format!("--topic {topic}: {why}")))?;
        if topic.contains('*') {
            let why = "with --events it is the topic of all events, and no pattern";
            return Err(Misuse(format!("--topic {topic}: {why}")).into());
        }
        let read: Box<dyn BufRead + Send> = match file.as_os_str() == "-" {
            true => Box::new(std::io::BufReader::new(std::io::stdin())),
            false => Box::new(std::io::BufReader::new(
                std::fs::File::open(file).with_context(|| format!("{} can't be opened", file.display()))?,
            )),
        };
        Ok(Self::File(Lines { read, file: file.clone(), topic, fields: args.fields.clone(), number: 0, now }))
    }

    pub async fn next(&mut self) -> anyhow::Result<Option<Recorded>> {
        match self {
            Self::Outbox(outbox) => outbox.next().await,
            Self::File(lines) => lines.next(),
        }
    }

    /// Why there was no event at all.
    pub fn nothing(&self) -> String {
        match self {
            Self::Outbox(Outbox { destination, topics: None, .. }) => {
                format!("nothing of {destination} was delivered or died yet")
            }
            Self::Outbox(Outbox { destination, topics: Some(topics), .. }) => {
                format!(
                    "nothing of {destination} with the topic {} was delivered or died yet",
                    topics.as_str()
                )
            }
            Self::File(lines) => format!("{} holds no event", lines.file.display()),
        }
    }
}

pub struct Outbox {
    context: Context,
    destination: String,
    topics: Option<Pattern>,
    page: VecDeque<RecordedDelivery>,
    /// Where the next page begins; none after the last one.
    next: Option<Option<EventSeq>>,
}

impl Outbox {
    async fn next(&mut self) -> anyhow::Result<Option<Recorded>> {
        let operate = self.context.stores.operate.clone();
        loop {
            while let Some(delivery) = self.page.pop_front() {
                let topic = &delivery.event.topic;
                if !self.topics.as_ref().is_none_or(|topics| topics.matches(topic)) {
                    continue;
                }
                // One at a time; an event may be purged meanwhile.
                if let Some(payload) = operate.payload(delivery.event.seq).await? {
                    let outcome = Some(outcome(&delivery));
                    return Ok(Some(Recorded { event: delivery.event, payload, outcome }));
                }
            }
            let Some(before) = self.next else { return Ok(None) };
            let page = operate.recorded(&self.destination, before, PAGE_ROWS).await?;
            self.next = page.next.map(Some);
            self.page = page.deliveries.into();
        }
    }
}

/// `delivered`, `dead (rejected: bad-total)`.
fn outcome(delivery: &RecordedDelivery) -> String {
    let RecordedDelivery { disposition, outcome, code, .. } = delivery;
    if delivery.status == DeliveryStatus::Delivered {
        return outcome.clone().unwrap_or_else(|| "delivered".to_owned());
    }
    let why = disposition.as_deref().or(outcome.as_deref());
    match (why, code.as_deref().filter(|code| !code.is_empty())) {
        (None, _) => "dead".to_owned(),
        (Some(why), None) => format!("dead ({why})"),
        (Some(why), Some(code)) => format!("dead ({why}: {code})"),
    }
}

pub struct Lines {
    read: Box<dyn BufRead + Send>,
    file: PathBuf,
    topic: String,
    fields: Fields,
    number: i64,
    now: Timestamp,
}

impl Lines {
    fn next(&mut self) -> anyhow::Result<Option<Recorded>> {
        loop {
            self.number += 1;
            let place = format!("{} line {}", self.file.display(), self.number);
            let mut line = Vec::new();
            let read =
                self.read.read_until(b'\n', &mut line).with_context(|| format!("{place} can't be read"))?;
            if read == 0 {
                return Ok(None);
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let line = line.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(line);
            let line = self.fields.read(line).with_context(|| place)?;
            return Ok(Some(self.event(line)));
        }
    }

    fn event(&self, line: Line) -> Recorded {
        let event = Event {
            seq: EventSeq(self.number),
            tenant: String::new(),
            id: line.id.unwrap_or_else(|| format!("line-{}", self.number)),
            topic: self.topic.clone(),
            key: line.key,
            headers: Vec::new(),
            content_type: "application/json".to_owned(),
            created_at: self.now,
            expires_at: None,
            payload_bytes: line.payload.len() as u64,
        };
        Recorded { event, payload: Bytes::from(line.payload), outcome: None }
    }
}
