//! Trace files: whatever is in one, it is blocks up to where it ends or makes no sense.

use crate::record::trace::file::{Block, read_block, read_head};
use crate::record::trace::{Record, unpack};

/// Reads a file of these bytes.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let mut input = data;
    if read_head(&mut input).is_err() {
        return;
    }
    let before = input.len();
    let (mut events, mut text) = (0, 0);
    loop {
        match read_block(&mut input) {
            Ok(None) => break,
            Ok(Some(block)) => {
                text += text_of(&block);
                events += events_of(&block);
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    // What is made of a file is no larger than the file; of a byte a replacement character may have
    // been made.
    assert!(events * 48 <= before && text <= before * 3, "{events} events, {text} bytes of text");
}

fn text_of(block: &Block) -> usize {
    match block {
        Block::Process { name, .. } => name.len(),
        Block::Maps(maps) => maps.len(),
        Block::Events { .. } | Block::Round { .. } => 0,
    }
}

fn events_of(block: &Block) -> usize {
    let Block::Events { events, .. } = block else { return 0 };
    let mut count = 0;
    for record in events.iter().flat_map(unpack) {
        count += 1;
        match record {
            Record::Thread { name, .. } => assert!(name.len() <= 48 * 3),
            Record::QueueName { at: (begin, len), part, .. }
            | Record::FunctionName { at: (begin, len), part, .. } => {
                assert!(begin + part.len() <= len, "{part:?} at {begin} of {len}");
                assert!(len <= 1 << 13, "a name of {len} bytes");
            }
            Record::Event(_) => {}
        }
    }
    assert!(count <= 2 * events.len(), "{count} records of {}", events.len());
    events.len()
}

#[test]
fn any_file_is_blocks_or_refused() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/trace_file"), 20_000, run);
}
