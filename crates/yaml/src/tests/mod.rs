mod parse;
mod print;
