//! Tests of reading and printing.

mod parse;
mod print;
