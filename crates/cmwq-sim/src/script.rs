//! What a work item does, as text: `"burn 5ms"`, `"sleep 10ms"`.

use std::fmt;
use std::str::FromStr;

use crate::Nanos;
use crate::parse_error::ParseError;

/// One step of a work item's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Use the CPU for this long (CPU time, not wall time).
    Burn(Nanos),
    /// Block for this long.
    Sleep(Nanos),
}

/// Why a step or a duration could not be understood.
pub type ScriptError = ParseError;

/// Nanoseconds per unit, longest first.
const UNITS: [(&str, Nanos); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl FromStr for Step {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut words = text.split_whitespace();
        let verb = words.next().ok_or_else(|| {
            ScriptError::new("an empty step: write \"burn 5ms\" or \"sleep 10ms\"")
        })?;
        let rest: String = words.collect();
        let make = match verb {
            "burn" => Self::Burn,
            "sleep" => Self::Sleep,
            _ => {
                return Err(ScriptError::new(format!(
                    "unknown step '{verb}' in \"{text}\": use burn or sleep"
                )));
            }
        };
        if rest.is_empty() {
            return Err(ScriptError::new(format!(
                "\"{text}\" lacks a duration, as in \"{verb} 5ms\""
            )));
        }
        parse_duration(&rest).map(make)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Burn(ns) => write!(f, "burn {}", Duration(ns)),
            Self::Sleep(ns) => write!(f, "sleep {}", Duration(ns)),
        }
    }
}

/// Shows nanoseconds in the longest unit that needs no fraction.
struct Duration(Nanos);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, Nanos)| self.0 != 0 && self.0.is_multiple_of(unit.1);
        let (name, ns) = UNITS.iter().find(fits).unwrap_or(&("ms", 1_000_000));
        write!(f, "{}{name}", self.0 / ns)
    }
}

/// Nanoseconds of a duration such as `5ms`, `1.5 s`, `20us`.
///
/// # Errors
/// If the number or the unit cannot be understood, or the duration is beyond 2^64 ns (584 years).
pub fn parse_duration(text: &str) -> Result<Nanos, ScriptError> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    if unit.is_empty() {
        return Err(ScriptError::new(format!(
            "'{text}' has no unit: use ns, us, ms or s, as in '5ms'"
        )));
    }
    let unit = if unit == "µs" { "us" } else { unit };
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(ScriptError::new(format!(
            "unknown unit '{unit}' in '{text}': use ns, us, ms or s"
        )));
    };
    scaled(number, *scale).ok_or_else(|| {
        ScriptError::new(format!(
            "'{number}' in '{text}' is not a number that fits, such as 5 or 1.5"
        ))
    })
}

/// `number × scale` exactly, a fraction finer than 1 ns cut off; no floating point, so nothing is
/// rounded.
fn scaled(number: &str, scale: Nanos) -> Option<Nanos> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    if number.contains('.') && fraction.is_empty() {
        return None;
    }
    let mut ns = whole.parse::<Nanos>().ok()?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        ns = ns.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_understood() {
        assert_eq!("burn 5ms".parse(), Ok(Step::Burn(5_000_000)));
        assert_eq!("  sleep  10 ms ".parse(), Ok(Step::Sleep(10_000_000)));
        assert_eq!("burn 1.5us".parse(), Ok(Step::Burn(1_500)));
        assert_eq!("burn 0.000001s".parse(), Ok(Step::Burn(1_000)));
        assert_eq!("sleep 2s".parse(), Ok(Step::Sleep(2_000_000_000)));
        assert_eq!("sleep 3µs".parse(), Ok(Step::Sleep(3_000)));
    }

    #[test]
    fn what_is_shown_is_understood_again() {
        for step in [Step::Burn(0), Step::Burn(1), Step::Sleep(1_500), Step::Sleep(60_000_000_000)]
        {
            assert_eq!(step.to_string().parse(), Ok(step), "{step}");
        }
        assert_eq!(Step::Burn(5_000_000).to_string(), "burn 5ms");
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = |text: &str| text.parse::<Step>().unwrap_err().to_string();
        assert!(error("").contains("burn 5ms"));
        assert!(error("run 5ms").contains("unknown step 'run'"));
        assert!(error("burn").contains("lacks a duration"));
        assert!(error("burn 5").contains("no unit"));
        assert!(error("burn 5min").contains("unknown unit 'min' in '5min': use ns, us, ms or s"));
        assert!(error("burn -5ms").contains("not a number"));
        assert!(error("burn 5.ms").contains("not a number"));
        assert!(error("sleep 99999999999999s").contains("not a number that fits"));
    }
}
