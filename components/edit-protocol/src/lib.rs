//! Line edits over the bytes of a file. Pure: bytes and expectations in, new bytes or a refusal out.
