//! What decides: pure functions over explicit inputs. Wire types are parsed once, at an engine's door.
