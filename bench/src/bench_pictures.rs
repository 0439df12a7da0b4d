//! The pictures' job: each picture is fetched, decoded, made smaller, encoded, written and synced.
//! The pools stand at their best sizes, cmwq without one.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{ExtendedColorType, ImageFormat, Rgb, RgbImage};

use crate::bench_sizes::{self, Load, Makespan};
use crate::external::build_folder;
use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::peers::{self, Peer};
use crate::report::{Section, Unit};
use crate::rounds::Session;
use crate::sys;

const PICTURES: u32 = 200;
const PICTURES_QUICK: u32 = 40;
const FETCH_US: u64 = 30_000;

/// What a camera's smallest picture is like, and what a page of many shows.
const WIDTH: u32 = 800;
const HEIGHT: u32 = 600;
const SMALL: u32 = 160;

/// Options of `pictures`.
#[derive(Args, Debug, Default)]
pub(crate) struct PicturesOptions {
    /// Pictures [default: 200, with --quick 40].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pictures: Option<u32>,
    /// How long it takes to fetch one, in microseconds [default: 30000].
    #[arg(long)]
    pub(crate) fetch_us: Option<u64>,
    /// Largest pool to try [default: 512, with --quick 64].
    #[arg(long)]
    pub(crate) largest: Option<usize>,
}

/// Measures the job at the best size of each pool.
pub(crate) fn run(session: &mut Session, options: &PicturesOptions) -> Result<Section> {
    let pictures = if session.quick { PICTURES_QUICK } else { PICTURES };
    let pictures = options.pictures.unwrap_or(pictures);
    let fetch_us = options.fetch_us.unwrap_or(FETCH_US);
    let folder = build_folder("pictures")?;
    let folder = folder.to_str().context("a folder whose name is no text")?.to_owned();
    let job = Job {
        first_us: fetch_us,
        folder,
        ..Job::new(Bench::Pictures, session.cpus, pictures as usize)
    };
    let load = Load {
        name: "pictures".to_owned(),
        title: format!(
            "{pictures} pictures of {WIDTH} by {HEIGHT}, each fetched in {}, decoded, made \
             smaller, encoded, \
             written and synced",
            Unit::Time.show(fetch_us as f64 * 1e3)
        ),
        job,
        ideal_ns: None,
        goal: bench_sizes::GOAL,
    };
    let largest = bench_sizes::largest(session, options.largest);
    bench_sizes::table(session, &load, largest)
}

/// Runs one round in this process.
pub(crate) fn measure<P: Peer>(job: &Job) -> Result<Makespan> {
    let fetched: &'static [u8] = Vec::leak(picture()?);
    let folder = Path::new(&job.folder).join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let peer: &'static P = Box::leak(Box::new(P::start(job)?));
    peers::warm_up(peer, job.cpus);
    let makespan = Makespan::of(job, || once(job, peer, fetched, &folder))?;
    std::fs::remove_dir_all(&folder)?;
    Ok(makespan)
}

/// How long it takes. Pictures of the last time are written over.
fn once<P: Peer>(
    job: &Job,
    peer: &'static P,
    fetched: &'static [u8],
    folder: &Path,
) -> Result<f64> {
    let gate = Gate::leaked(job.count);
    let start = Instant::now();
    for number in 0..job.count {
        let (fetch, to) = (job.first_wait(), folder.join(number.to_string()));
        peer.spawn(move || {
            small::<P>(fetch, fetched, to).expect("a picture can be made smaller");
            gate.done();
        });
    }
    gate.wait();
    Ok(sys::duration_ns(start.elapsed()) as f64)
}

/// All that is done to one picture.
fn small<P: Peer>(fetch: Duration, fetched: &[u8], to: PathBuf) -> Result<()> {
    P::block(|| std::thread::sleep(fetch));
    let picture = image::load_from_memory_with_format(fetched, ImageFormat::Jpeg)?;
    let small = picture.resize(SMALL, SMALL, FilterType::Triangle).into_rgb8();
    let bytes = encode(&small)?;
    let mut written = Ok(());
    P::block(|| written = write(&to, &bytes));
    Ok(written?)
}

fn write(to: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(to)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn encode(picture: &RgbImage) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (width, height) = picture.dimensions();
    JpegEncoder::new(&mut bytes).encode(picture, width, height, ExtendedColorType::Rgb8)?;
    Ok(bytes)
}

/// A picture as it is fetched: a field of colours with some noise, so that it is neither trivial
/// nor huge.
fn picture() -> Result<Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(1);
    let picture = RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let noise = rng.u8(..24);
        let level = |part: u32, whole: u32| (part * 231 / whole) as u8 + noise;
        Rgb([level(x, WIDTH), level(y, HEIGHT), level(x + y, WIDTH + HEIGHT)])
    });
    encode(&picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_smaller_afterwards_and_keeps_its_form() {
        let fetched = picture().unwrap();
        let picture = image::load_from_memory_with_format(&fetched, ImageFormat::Jpeg).unwrap();
        assert_eq!((picture.width(), picture.height()), (WIDTH, HEIGHT));
        let small = picture.resize(SMALL, SMALL, FilterType::Triangle).into_rgb8();
        assert_eq!(small.dimensions(), (160, 120));
        assert!(encode(&small).unwrap().len() < fetched.len() / 10);
    }
}
