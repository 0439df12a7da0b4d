//! What is done to a picture. All of it computes.

use std::fmt;
use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageReader, Limits};

/// The longest side that is decoded, in pixels.
const LONGEST: u32 = 12_000;
/// The memory that decoding may take, in bytes.
const MEMORY: u64 = 256 << 20;
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
    let picture = reader.decode().map_err(NoPicture)?;
    let is_small = picture.width() <= side && picture.height() <= side;
    encode(&if is_small { picture } else { picture.thumbnail(side, side) })
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
}
