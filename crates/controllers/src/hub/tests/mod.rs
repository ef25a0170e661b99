//! Tests of several controllers of the hub.

mod unreadable;
