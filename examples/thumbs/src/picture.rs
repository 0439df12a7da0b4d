//! What is done to a picture. All of it computes.

use std::fmt;
use std::io::Cursor;
use std::sync::{Mutex, MutexGuard, PoisonError};

use image::codecs::jpeg::JpegEncoder;
use image::error::{LimitError, LimitErrorKind};
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits, Rgba, RgbaImage};

/// The longest side that is decoded, in pixels.
const LONGEST: u32 = 12_000;
/// The memory that decoding may take, in bytes: 59 million pixels of a JPEG.
const MEMORY: u64 = 512 << 20;
/// Of pictures that take more, only one is decoded at a time: 14 million pixels.
const MUCH: u64 = 128 << 20;
/// Whose turn it is.
static LARGE: Mutex<()> = Mutex::new(());
const QUALITY: u8 = 80;

/// The bytes are no picture that this service takes.
#[derive(Debug)]
pub struct NoPicture(image::ImageError);

impl fmt::Display for NoPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no JPEG or PNG of at most {LONGEST} pixels a side: {}", self.0)
    }
}

impl std::error::Error for NoPicture {}

/// A JPEG of the picture, so small that neither side is longer than `side` pixels; no larger than
/// it was.
///
/// # Errors
/// If it cannot be decoded, or is too large to.
pub fn smaller(bytes: &[u8], side: u32) -> Result<Vec<u8>, NoPicture> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| NoPicture(error.into()))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(LONGEST);
    limits.max_image_height = Some(LONGEST);
    limits.max_alloc = Some(MEMORY);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(NoPicture)?;
    // What cannot be read of it is not worth losing the picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut small = decode(decoder, side).map_err(NoPicture)?;
    small.apply_orientation(orientation);
    encode(&on_white(small))
}

/// The picture, already small: the large one is gone when this returns.
fn decode(decoder: impl ImageDecoder, side: u32) -> Result<DynamicImage, ImageError> {
    // Who waits for his turn is blocked, and another job runs.
    let _turn = turn_for(memory_for(decoder.total_bytes())?);
    let picture = DynamicImage::from_decoder(decoder)?;
    let is_small = picture.width() <= side && picture.height() <= side;
    Ok(if is_small { picture } else { picture.thumbnail(side, side) })
}

/// What a picture of so many bytes takes while it is decoded: of a progressive JPEG there are also
/// all coefficients, two bytes for each of its bytes, of which no limit of the decoder's knows.
fn memory_for(bytes: u64) -> Result<u64, ImageError> {
    let needed = bytes.saturating_mul(3);
    let too_much = || LimitError::from_kind(LimitErrorKind::InsufficientMemory);
    if needed <= MEMORY { Ok(needed) } else { Err(ImageError::Limits(too_much())) }
}

/// Waits until nobody else decodes a picture that takes much memory, if this one does.
fn turn_for(needed: u64) -> Option<MutexGuard<'static, ()>> {
    (needed > MUCH).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner))
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
/// If there is no memory for it.
pub fn synthetic(width: u32, height: u32, seed: u64) -> Result<Vec<u8>, NoPicture> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (red, green) = (random.u32(3..40), random.u32(3..40));
    let shade = |x: u32, y: u32| {
        let noise = random.u8(0..16);
        image::Rgb([(x * 256 / width) as u8, (y * green) as u8, (x * red) as u8 / 2 + noise])
    };
    let mut shade = shade;
    let mut picture = image::RgbImage::new(width, height);
    for (x, y, pixel) in picture.enumerate_pixels_mut() {
        *pixel = shade(x, y);
    }
    encode(&picture.into())
}

fn encode(picture: &DynamicImage) -> Result<Vec<u8>, NoPicture> {
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    picture.to_rgb8().write_with_encoder(encoder).map_err(NoPicture)?;
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
        assert!(matches!(refused.0, ImageError::Limits(_)), "{refused}");
        assert!(memory_for(8_192 * 6_144 * 3).is_ok(), "as phones make them");
    }

    #[test]
    fn large_ones_are_decoded_one_at_a_time() {
        assert!(turn_for(MUCH).is_none());
        let turn = turn_for(MUCH + 1);
        assert!(turn.is_some() && LARGE.try_lock().is_err());
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
