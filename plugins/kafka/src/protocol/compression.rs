//! The codecs of a batch, each as Kafka's own clients frame it.

use std::io::Write as _;

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Deserialize;

/// What `SnappyOutputStream` of the Java client writes before its blocks: a magic word and two versions.
const SNAPPY_HEADER: &[u8] = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01";
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Its bits in a batch's attributes.
    pub fn bits(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    pub fn apply(self, bytes: Vec<u8>) -> Vec<u8> {
        const MEMORY: &str = "memory takes what is written";
        match self {
            Self::None => bytes,
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Level::default());
                encoder.write_all(&bytes).expect(MEMORY);
                encoder.finish().expect(MEMORY)
            }
            Self::Snappy => snappy(&bytes),
            Self::Lz4 => {
                // Kafka reads no blocks that lean on those before them.
                let info = FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&bytes).expect(MEMORY);
                encoder.finish().expect(MEMORY)
            }
            Self::Zstd => compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest),
        }
    }
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut framed = SNAPPY_HEADER.to_vec();
    for block in bytes.chunks(SNAPPY_BLOCK_BYTES) {
        let block = snap::raw::Encoder::new().compress_vec(block).expect("a block is small enough");
        framed.extend((block.len() as u32).to_be_bytes());
        framed.extend(block);
    }
    framed
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn undone(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match compression {
            Compression::None => plain.extend(bytes),
            Compression::Gzip => {
                flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
            }
            Compression::Lz4 => {
                lz4_flex::frame::FrameDecoder::new(bytes).read_to_end(&mut plain).unwrap();
            }
            Compression::Zstd => {
                let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes).unwrap();
                decoder.read_to_end(&mut plain).unwrap();
            }
            Compression::Snappy => {
                let mut rest = bytes.strip_prefix(SNAPPY_HEADER).unwrap();
                while let Some((length, after)) = rest.split_first_chunk::<4>() {
                    let (block, after) = after.split_at(u32::from_be_bytes(*length) as usize);
                    plain.extend(snap::raw::Decoder::new().decompress_vec(block).unwrap());
                    rest = after;
                }
            }
        }
        plain
    }

    #[test]
    fn every_codec_gives_back_what_it_took() {
        let repeating: Vec<u8> = (0..200_000).map(|at| (at % 251) as u8).collect();
        for compression in Compression::ALL {
            for plain in [&b""[..], b"x", &repeating] {
                let packed = compression.apply(plain.to_vec());
                assert!(undone(compression, &packed) == plain, "{compression:?} of {} bytes", plain.len());
            }
            let packed = compression.apply(repeating.clone());
            assert!(
                compression == Compression::None || packed.len() < repeating.len() / 4,
                "{compression:?}"
            );
        }
    }
}
