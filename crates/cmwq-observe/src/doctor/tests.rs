//! Tests of the judgements on made-up findings, and of the findings on the real machine.

mod judgement;
mod reading;
