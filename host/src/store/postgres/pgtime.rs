//! `timestamptz` as the domain's [`Timestamp`], without a calendar library between them.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::domain::Timestamp;

/// On the wire it is microseconds since 2000-01-01, in eight bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PgTime(pub Timestamp);

const SINCE_1970_US: i64 = 946_684_800_000_000;

impl Type<Postgres> for PgTime {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for PgTime {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for PgTime {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend(&self.0.0.saturating_sub(SINCE_1970_US).to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for PgTime {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() != PgValueFormat::Binary {
            return Err("a time came as text, where only prepared statements are used".into());
        }
        let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?);
        Ok(Self(Timestamp(micros.saturating_add(SINCE_1970_US))))
    }
}

pub(super) fn time(value: Option<PgTime>) -> Option<Timestamp> {
    value.map(|PgTime(at)| at)
}
