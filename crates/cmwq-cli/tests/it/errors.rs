//! What every error of the libraries has to be: something that `?` can turn into the errors of
//! others, that says its cause once, and that names what was wrong and what would be right.

use std::any::type_name;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use cmwq::sysfs::{Attribute, GlobalAttribute};
use cmwq::{AffinityScope, CpuSet, Detect, Workqueue};
use cmwq_observe::control::{Client, ClientError, ConnectError};
use cmwq_observe::inspect::{OpenError, ReadError};
use cmwq_sim::config::Sabotage;
use cmwq_sim::scenario::Flag;
use cmwq_sim::script::Step;
use cmwq_sim::swarm::FaultSet;
use cmwq_sim::{Scope, Shape};

/// The libraries, whose errors are looked at. Those of the command are its own.
const LIBRARIES: [&str; 6] =
    ["cmwq", "cmwq-core", "cmwq-nats", "cmwq-observe", "cmwq-sim", "cmwq-tokio"];

/// The last part of a type's name, without what it is for.
fn short<T>() -> String {
    let name = type_name::<T>().split('<').next().unwrap();
    name.rsplit("::").next().unwrap().to_owned()
}

/// Every source file below.
fn sources(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines of all libraries that begin an implementation of this trait, and the types' names.
fn implementations(of: &str) -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for library in LIBRARIES {
        sources(&crates.join(library).join("src"), &mut files);
    }
    let mut found = Vec::new();
    for file in files {
        for line in fs::read_to_string(&file).unwrap().lines() {
            // What the simulator's `named!` makes of an enum.
            let named = line.trim().strip_prefix("pub enum ").and_then(|it| it.split_once(": \""));
            if let Some((name, _)) = named.filter(|_| of == "FromStr") {
                found.push((name.to_owned(), line.to_owned()));
            }
            let Some((before, after)) = line.split_once(&format!("{of} for ")) else { continue };
            if before.starts_with("impl") && before.ends_with([' ', ':']) {
                let end = after.find(|c: char| !c.is_alphanumeric()).unwrap_or(after.len());
                found.push((after[..end].to_owned(), line.to_owned()));
            }
        }
    }
    assert!(!found.is_empty(), "no implementation of {of} was found");
    found
}

/// A text that is refused: the error can be sent, shared and kept, and names it and what may be
/// written.
fn refuses<T: FromStr<Err: Error + Send + Sync + 'static>>(text: &str, allowed: &[&str]) -> String {
    let Err(error) = text.parse::<T>() else { panic!("{} takes {text:?}", short::<T>()) };
    let error: Box<dyn Error + Send + Sync> = error.into();
    let says = error.to_string();
    for part in [&[text], allowed].concat() {
        assert!(says.contains(part), "{} does not name {part:?}: {says}", short::<T>());
    }
    said_once(&*error);
    short::<T>()
}

#[test]
fn what_is_read_from_text_says_what_it_takes() {
    let tried = [
        refuses::<Detect>("magic", &Detect::ALL.map(Detect::name)),
        refuses::<AffinityScope>("core", &AffinityScope::ALL.map(AffinityScope::name)),
        refuses::<CpuSet>("0-x", &["0-3,8", &(CpuSet::MAX_CPUS - 1).to_string()]),
        refuses::<Attribute>("niceness", &Attribute::ALL.map(Attribute::name)),
        refuses::<GlobalAttribute>("mask", &GlobalAttribute::ALL.map(GlobalAttribute::name)),
        refuses::<Scope>("core", &Scope::ALL.map(|(_, name)| name)),
        refuses::<Shape>("2x2", &["2x32x2", "1x4x3x2", "big-little"]),
        refuses::<Sabotage>("nothing", &Sabotage::ALL.map(|(_, name)| name)),
        refuses::<FaultSet>("gremlins", &["all", "none"]),
        refuses::<Flag>("fast", &Flag::ALL.map(|(_, name)| name)),
        refuses::<Step>("run 5ms", &["burn", "sleep"]),
    ];
    let all: BTreeSet<_> = implementations("FromStr").into_iter().map(|(name, _)| name).collect();
    assert_eq!(BTreeSet::from(tried), all, "each has a line above");
}

/// Prints an error as those do who print its causes, too.
fn with_causes(error: &dyn Error) -> Vec<String> {
    let (mut said, mut next) = (Vec::new(), Some(error));
    while let Some(error) = next {
        said.push(error.to_string());
        next = error.source();
    }
    said
}

#[track_caller]
fn said_once(error: &dyn Error) {
    let said = with_causes(error);
    for (place, cause) in said.iter().enumerate().skip(1) {
        assert!(said[..place].iter().all(|before| !before.contains(cause)), "twice: {said:?}");
    }
}

#[track_caller]
fn shareable<E: Error + Send + Sync + 'static>(error: E) -> String {
    said_once(&error);
    // As `?` does it in functions that return one of these.
    let said = with_causes(&*Box::<dyn Error + Send + Sync>::from(error));
    assert!(said.iter().all(|text| !text.is_empty()), "{said:?}");
    short::<E>()
}

#[test]
fn causes_are_said_once() {
    let broken = || io::Error::from_raw_os_error(libc::EPIPE);
    let wq = Workqueue::builder("errors").max_queued(0).build().unwrap();
    let tried = [
        shareable(
            Workqueue::builder("errors").sample_times(1).bh().max_active(2).build().unwrap_err(),
        ),
        shareable(wq.try_queue(|| ()).unwrap_err()),
        shareable(wq.queue(|| panic!("on purpose")).join().unwrap_err()),
        shareable(wq.queue(|| cmwq::shutdown(Duration::ZERO)).join().unwrap().unwrap_err()),
        shareable("x".parse::<CpuSet>().unwrap_err()),
        shareable("x".parse::<AffinityScope>().unwrap_err()),
        shareable("x".parse::<Attribute>().unwrap_err()),
        shareable(ReadError::NotReady),
        shareable(OpenError::Unreadable(ReadError::NotCmwq)),
        shareable(OpenError::Io(broken())),
        shareable(ClientError::Io(broken())),
        shareable(ClientError::Protocol("it is mute".to_owned())),
        shareable(ConnectError::NotFound { pid: 1, source: broken() }),
        shareable(ConnectError::Failed { path: "/x".into(), source: broken() }),
        shareable(ConnectError::Refused(ClientError::Io(broken()))),
        shareable(Client::connect(u32::MAX).unwrap_err()),
        shareable("x".parse::<Shape>().unwrap_err()),
        shareable("x".parse::<Flag>().unwrap_err()),
        shareable("x".parse::<Step>().unwrap_err()),
    ];
    let tried = BTreeSet::from(tried);
    // Of the other libraries, and what is not to be had from outside: they have no `source`, so
    // there is nothing that could be said twice.
    for (name, line) in implementations("Error") {
        assert!(tried.contains(&name) || line.ends_with("{}"), "{name} has no line above: {line}");
    }
}
