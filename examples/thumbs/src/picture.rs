//! What is done to a picture. All of it computes.

use std::fmt;
use std::io::Cursor;
use std::sync::{Mutex, MutexGuard, TryLockError};

use image::codecs::jpeg::JpegEncoder;
use image::error::{LimitError, LimitErrorKind};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits, Rgba, RgbaImage};

/// The longest side that is decoded, in pixels.
const MAX_DECODED_SIDE: u32 = 12_000;
/// The memory that decoding may take, in bytes: 59 million pixels of a JPEG.
const MAX_DECODE_BYTES: u64 = 512 << 20;
/// Pictures that take more, from 14 million pixels of a JPEG on, are decoded one at a time.
const LARGE_PICTURE_BYTES: u64 = 128 << 20;
/// What may be read ahead of the pixels, such as a colour profile, in bytes.
const MAX_METADATA_BYTES: u64 = 32 << 20;
/// Held while a large picture is decoded.
static LARGE_PICTURE: Mutex<()> = Mutex::new(());
const QUALITY: u8 = 80;

/// The bytes are no picture that this service takes.
#[derive(Debug)]
pub struct NoPicture(image::ImageError);

impl fmt::Display for NoPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no JPEG or PNG of at most {MAX_DECODED_SIDE} pixels a side: {}", self.0)
    }
}

impl std::error::Error for NoPicture {}

/// Why there is no smaller one.
#[derive(Debug)]
pub enum Refused {
    /// It is none that this service takes.
    NoPicture(NoPicture),
    /// It takes much memory, and so does another one, just now.
    Busy,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPicture(error) => error.fmt(f),
            Self::Busy => f.write_str("another large picture is made smaller just now"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<ImageError> for Refused {
    fn from(error: ImageError) -> Self {
        Self::NoPicture(NoPicture(error))
    }
}

/// A JPEG of the picture, so small that neither side is longer than `side` pixels; no larger than
/// it was.
///
/// # Errors
/// If it cannot be decoded, or is too large to; or too large to be made smaller beside another one.
pub fn smaller(bytes: &[u8], side: u32) -> Result<Vec<u8>, Refused> {
    let mut reader =
        ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(ImageError::from)?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_DECODED_SIDE);
    limits.max_image_height = Some(MAX_DECODED_SIDE);
    limits.max_alloc = Some(MAX_METADATA_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    // Until the end: the small one may be as large, if that was asked for.
    let _turn = turn_for(memory_for(decoder.total_bytes())?)?;
    // What cannot be read of it is not worth losing the picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut small = decode(decoder, side)?;
    small.apply_orientation(orientation);
    Ok(encode(&on_white(small))?)
}

/// The picture, already small: the large one is gone when this returns.
fn decode(decoder: impl ImageDecoder, side: u32) -> Result<DynamicImage, ImageError> {
    let picture = DynamicImage::from_decoder(decoder)?;
    let is_small = picture.width() <= side && picture.height() <= side;
    Ok(if is_small { picture } else { picture.thumbnail(side, side) })
}

/// About what a picture of so many bytes takes while it is decoded: of a progressive JPEG there are
/// also all coefficients, two bytes for each of its bytes, of which no limit of the decoder's
/// knows. One of four colours takes a fifth more than this.
fn memory_for(bytes: u64) -> Result<u64, ImageError> {
    let needed = bytes.saturating_mul(3);
    let too_much = || LimitError::from_kind(LimitErrorKind::InsufficientMemory);
    if needed <= MAX_DECODE_BYTES { Ok(needed) } else { Err(ImageError::Limits(too_much())) }
}

/// The turn of a picture that takes much memory, unless another one has it. Nobody waits for it: a
/// job that waits keeps its place among those that may be in execution.
fn turn_for(needed: u64) -> Result<Option<MutexGuard<'static, ()>>, Refused> {
    if needed <= LARGE_PICTURE_BYTES {
        return Ok(None);
    }
    match LARGE_PICTURE.try_lock() {
        Ok(turn) => Ok(Some(turn)),
        Err(TryLockError::Poisoned(poisoned)) => Ok(Some(poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => Err(Refused::Busy),
    }
}

/// JPEGs have no transparency, and behind it may be any colour.
fn on_white(picture: DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return picture;
    }
    let mut white = RgbaImage::from_pixel(picture.width(), picture.height(), Rgba([255; 4]));
    image::imageops::overlay(&mut white, &picture.to_rgba8(), 0, 0);
    white.into()
}

/// A picture of so many pixels, in which every seed gives another one.
///
/// # Errors
/// If the encoder refuses the size.
pub fn synthetic(width: u32, height: u32, seed: u64) -> Result<Vec<u8>, NoPicture> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (red, green) = (random.u32(3..40), random.u32(3..40));
    let mut shade = |x: u32, y: u32| {
        let noise = random.u8(0..16);
        image::Rgb([(x * 256 / width) as u8, (y * green) as u8, (x * red) as u8 / 2 + noise])
    };
    let mut picture = image::RgbImage::new(width, height);
    for (x, y, pixel) in picture.enumerate_pixels_mut() {
        *pixel = shade(x, y);
    }
    encode(&picture.into()).map_err(NoPicture)
}

fn encode(picture: &DynamicImage) -> Result<Vec<u8>, ImageError> {
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    picture.to_rgb8().write_with_encoder(encoder)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_no_longer_than_asked_for_and_no_larger_than_it_was() {
        let bytes = synthetic(320, 200, 1).unwrap();
        for (side, expected) in [(80, (80, 50)), (1000, (320, 200))] {
            let small = image::load_from_memory(&smaller(&bytes, side).unwrap()).unwrap();
            assert_eq!((small.width(), small.height()), expected);
        }
    }

    #[test]
    fn what_is_no_picture_is_an_error() {
        let text = smaller(b"text", 10).unwrap_err().to_string();
        assert!(text.starts_with("this is no JPEG or PNG"), "{text}");
    }

    /// A JPEG whose head says that it has so many pixels.
    fn claiming(width: u16, height: u16) -> Vec<u8> {
        let mut bytes = synthetic(16, 16, 1).unwrap();
        let frame = bytes.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
        let sides = [height.to_be_bytes(), width.to_be_bytes()].concat();
        bytes[frame + 5..frame + 9].copy_from_slice(&sides);
        bytes
    }

    /// 254 MB, and if it were progressive 762.
    #[test]
    fn what_takes_more_memory_than_may_be_is_not_decoded() {
        let refused = smaller(&claiming(11_000, 7_700), 160).unwrap_err();
        let Refused::NoPicture(NoPicture(error)) = &refused else { panic!("{refused}") };
        assert!(matches!(error, ImageError::Limits(_)), "{refused}");
        assert!(memory_for(8_192 * 6_144 * 3).is_ok(), "as phones make them");
    }

    #[test]
    fn large_ones_are_made_smaller_one_at_a_time() {
        assert!(matches!(turn_for(LARGE_PICTURE_BYTES), Ok(None)));
        let turn = turn_for(LARGE_PICTURE_BYTES + 1);
        assert!(matches!(turn, Ok(Some(_))));
        assert!(matches!(smaller(&claiming(7_000, 5_000), 160), Err(Refused::Busy)));
        assert!(smaller(&claiming(16, 16), 160).is_ok(), "others need no turn");
        drop(turn);
        assert!(matches!(turn_for(LARGE_PICTURE_BYTES + 1), Ok(Some(_))));
    }

    /// As phones write them: the longer side lies, and a tag says so.
    #[test]
    fn it_stands_as_its_tag_says() {
        let mut bytes = synthetic(200, 100, 1).unwrap();
        let on_its_side =
            b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let length = u16::try_from(2 + on_its_side.len()).unwrap().to_be_bytes();
        bytes.splice(2..2, [&[0xff, 0xe1], &length[..], on_its_side].concat());
        for (side, expected) in [(80, (40, 80)), (1000, (100, 200))] {
            let small = image::load_from_memory(&smaller(&bytes, side).unwrap()).unwrap();
            assert_eq!((small.width(), small.height()), expected);
        }
    }

    #[test]
    fn what_is_transparent_is_white() {
        let hidden = RgbaImage::from_pixel(8, 8, Rgba([0, 0, 0, 0]));
        let mut png = Cursor::new(Vec::new());
        hidden.write_to(&mut png, image::ImageFormat::Png).unwrap();
        let small = smaller(png.get_ref(), 8).unwrap();
        let pixel = *image::load_from_memory(&small).unwrap().to_rgb8().get_pixel(4, 4);
        assert!(pixel.0.iter().all(|&value| value > 250), "{pixel:?}");
    }
}
