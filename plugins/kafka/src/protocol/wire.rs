//! The protocol's primitive types, both ways. Nothing that a broker sends makes the reader panic, or
//! reserve more than was sent.

/// Writes one value after the other.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn i8(&mut self, value: i8) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn i16(&mut self, value: i16) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.0.extend(value.to_be_bytes());
    }

    pub fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// A STRING. Whoever writes one has made sure that it is short.
    pub fn text(&mut self, value: &str) {
        self.i16(i16::try_from(value.len()).unwrap_or(i16::MAX));
        self.raw(value.as_bytes());
    }

    /// A NULLABLE_STRING without a value.
    pub fn no_text(&mut self) {
        self.i16(-1);
    }

    /// BYTES.
    pub fn bytes(&mut self, value: &[u8]) {
        self.count(value.len());
        self.raw(value);
    }

    /// How many elements of an array follow.
    pub fn count(&mut self, count: usize) {
        self.i32(i32::try_from(count).unwrap_or(i32::MAX));
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A VARINT or VARLONG: zigzag, seven bits a byte, the lowest first.
    pub fn varint(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest >= 0x80 {
            self.0.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    /// A length as VARINT and so many bytes, as records have them.
    pub fn varint_bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as i64);
        self.raw(bytes);
    }

    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Reads one value after the other.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

type Read<T> = Result<T, String>;

impl<'a> Reader<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or("an answer that ends too early")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn i16(&mut self) -> Read<i16> {
        self.take().map(i16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Read<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Read<i64> {
        self.take().map(i64::from_be_bytes)
    }

    pub fn bool(&mut self) -> Read<bool> {
        self.take::<1>().map(|[byte]| byte != 0)
    }

    fn slice(&mut self, length: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("an answer that ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    /// A NULLABLE_STRING.
    pub fn maybe_text(&mut self) -> Read<Option<String>> {
        let Ok(length) = usize::try_from(self.i16()?) else { return Ok(None) };
        Ok(Some(String::from_utf8_lossy(self.slice(length)?).into_owned()))
    }

    pub fn text(&mut self) -> Read<String> {
        self.maybe_text().map(Option::unwrap_or_default)
    }

    /// BYTES; none for null.
    pub fn bytes(&mut self) -> Read<&'a [u8]> {
        let Ok(length) = usize::try_from(self.i32()?) else { return Ok(&[]) };
        self.slice(length)
    }

    /// An ARRAY, each element read by `read`; null is an empty one.
    pub fn array<T>(&mut self, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.i32()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            // Each has a byte at least, so that a lie about the count ends soon.
            if self.0.is_empty() {
                return Err("an array that ends too early".to_owned());
            }
            elements.push(read(self)?);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut writer = Writer::default();
        writer.i16(-2);
        writer.i32(3);
        writer.i64(-4);
        writer.bool(true);
        writer.text("täxt");
        writer.no_text();
        writer.bytes(b"\x00\xff");
        writer.count(2);
        writer.i32(7);
        writer.i32(8);
        let bytes = writer.done();
        let mut reader = Reader::of(&bytes);
        assert_eq!(
            (reader.i16(), reader.i32(), reader.i64(), reader.bool()),
            (Ok(-2), Ok(3), Ok(-4), Ok(true))
        );
        assert_eq!((reader.text(), reader.maybe_text()), (Ok("täxt".into()), Ok(None)));
        assert_eq!((reader.bytes(), reader.array(Reader::i32)), (Ok(&b"\x00\xff"[..]), Ok(vec![7, 8])));
        assert!(reader.i16().is_err());
    }

    #[test]
    fn varints_are_zigzag_in_sevens() {
        for (value, bytes) in [
            (0, &b"\x00"[..]),
            (-1, b"\x01"),
            (1, b"\x02"),
            (63, b"\x7e"),
            (-64, b"\x7f"),
            (64, b"\x80\x01"),
            (300, b"\xd8\x04"),
            (i64::MIN, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ] {
            let mut writer = Writer::default();
            writer.varint(value);
            assert_eq!(writer.done(), bytes, "{value}");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        assert!(Reader::of(b"\x7f\xff\xff\xff").array(Reader::bool).is_err());
        assert!(Reader::of(b"\x7f\xffab").text().is_err());
        assert!(Reader::of(b"\x7f\xff\xff\xffab").bytes().is_err());
        assert_eq!(Reader::of(b"\xff\xff\xff\xff").array(Reader::bool), Ok(vec![]));
    }
}
