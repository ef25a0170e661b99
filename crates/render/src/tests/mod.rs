//! Tests of whole renderings.

mod golden;
