//! Rules that hold over several modules, without containers.

mod layers;
