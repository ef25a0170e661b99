mod compat;
mod fleet;
mod model;
mod properties;
