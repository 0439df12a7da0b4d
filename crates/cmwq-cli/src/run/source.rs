//! The arguments of each command: as many as were asked for, unless its line would be too long.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::input::{Cut, Lists, Stream};
use super::room::Room;
use super::template::Template;
use crate::descriptors::Waiting;

/// Where arguments come from.
enum Place {
    Lists(Lists),
    Stream(Stream<Box<dyn BufRead + Send>>),
}

/// See the module header.
pub(super) struct Source {
    place: Place,
    per_command: usize,
    /// For a command's arguments.
    room: Room,
    /// They had no room in the command before.
    ahead: Option<Vec<OsString>>,
}

impl Source {
    /// From lists, which combined are one argument of each.
    pub(super) fn of_lists(lists: Lists, per_command: usize, template: &Template) -> Self {
        Self::new(Place::Lists(lists), per_command, template)
    }

    /// From a file, or standard input.
    ///
    /// # Errors
    /// Those of opening it.
    pub(super) fn of_stream(
        path: Option<&Path>,
        cut: Cut,
        per_command: usize,
        template: &Template,
    ) -> io::Result<Self> {
        let reader: Box<dyn BufRead + Send> = match path {
            Some(path) if path.as_os_str() != "-" => {
                Box::new(BufReader::new(Waiting(File::open(path)?)))
            }
            _ => Box::new(BufReader::new(Waiting(io::stdin()))),
        };
        Ok(Self::new(Place::Stream(Stream::new(reader, cut)), per_command, template))
    }

    fn new(place: Place, per_command: usize, template: &Template) -> Self {
        let room = Room::beside(template.bare_size());
        Self { place, per_command, room, ahead: None }
    }

    /// The arguments of the next command.
    ///
    /// # Errors
    /// Those of reading them.
    pub(super) fn next(&mut self, template: &Template) -> io::Result<Option<Vec<OsString>>> {
        let (mut arguments, mut room) = (Vec::new(), self.room);
        while arguments.len() < self.per_command
            && let Some(more) = self.more()?
        {
            let has_room = more.iter().all(|argument| room.take(template.size_of(argument)));
            // What has no room beside nothing is refused by the system, and a message says why.
            // Where each argument has its place, all are needed.
            if !has_room && !arguments.is_empty() && !template.has_numbers() {
                self.ahead = Some(more);
                break;
            }
            arguments.extend(more);
        }
        Ok((!arguments.is_empty()).then_some(arguments))
    }

    fn more(&mut self) -> io::Result<Option<Vec<OsString>>> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(Some(ahead));
        }
        match &mut self.place {
            Place::Lists(lists) => Ok(lists.next()),
            Place::Stream(stream) => Ok(stream.next()?.map(|argument| vec![argument])),
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self.place, Place::Stream(_))
    }

    /// Whether there are no more. A stream does not know before it has been read.
    pub(super) fn is_empty(&self) -> bool {
        match &self.place {
            Place::Lists(lists) => lists.is_empty() && self.ahead.is_none(),
            Place::Stream(_) => false,
        }
    }
}
