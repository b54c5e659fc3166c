//! Bounds on the structure of a component, checked before anything interprets its bytes.
//!
//! Validators and compilers walk nested types by recursion, and need memory for each function and each name in a table. A
//! file of some kilobytes can therefore overflow a stack, and one of some megabytes can take gigabytes. This check walks the
//! sections with a stack on the heap, reads the number that each section begins with, and stores nothing else.

use wasmparser::{
    BinaryReader, BinaryReaderError, ComponentAlias, ComponentExternName, ComponentImport,
    ComponentType, ComponentTypeRef, CoreType,
};

use crate::inspect::{COMPONENT, NotAComponent, PREAMBLE};

/// Maximum nesting of components, and of the types of components and instances. Toolchains nest less than 10 deep. The engine
/// has the same limit for types that name each other by index.
pub(crate) const MAX_DEPTH: usize = 100;
/// Maximum number of functions in all modules of a component together. A Python interpreter has about 30,000.
pub(crate) const MAX_FUNCTIONS: u64 = 100_000;
/// Maximum number of the other definitions in a component: types, imports, exports, aliases, instances, globals and segments.
/// A Python interpreter has some thousands.
pub(crate) const MAX_DEFINITIONS: u64 = 100_000;

/// A component or module that is being walked.
struct Open {
    /// The position after its last byte.
    end: usize,
    is_component: bool,
}

/// What was counted so far.
#[derive(Default)]
struct Counts {
    functions: u64,
    definitions: u64,
}

impl Counts {
    fn functions(&mut self, count: u32) -> Result<(), NotAComponent> {
        self.functions += u64::from(count);
        if self.functions > MAX_FUNCTIONS {
            return Err(NotAComponent::TooManyFunctions);
        }
        Ok(())
    }

    fn definitions(&mut self, count: u32) -> Result<(), NotAComponent> {
        self.definitions += u64::from(count);
        if self.definitions > MAX_DEFINITIONS {
            return Err(NotAComponent::TooManyDefinitions);
        }
        Ok(())
    }
}

/// Checks the bounds as far as the bytes are well-formed. Damage is not reported here: the parser that runs next reads the
/// same bytes in the same order, and ends where this check has ended.
///
/// # Errors
///
/// [`NotAComponent::TooDeep`], [`NotAComponent::TooManyFunctions`] or [`NotAComponent::TooManyDefinitions`].
pub(crate) fn check(bytes: &[u8]) -> Result<(), NotAComponent> {
    let mut counts = Counts::default();
    let mut open = vec![Open { end: bytes.len(), is_component: true }];
    let mut at = PREAMBLE.min(bytes.len());
    while let Some(Open { end, is_component }) = open.last() {
        let (end, is_component) = (*end, *is_component);
        if at >= end {
            open.pop();
            continue;
        }
        let mut reader = BinaryReader::new(&bytes[at..end], at as _);
        let (Ok(id), Ok(size)) = (reader.read_u8(), reader.read_var_u32()) else { return Ok(()) };
        let start = end - reader.bytes_remaining();
        let Some(after) = start.checked_add(size as usize).filter(|after| *after <= end) else {
            return Ok(());
        };
        let section = &bytes[start..after];
        at = after;
        if is_component && matches!(id, MODULE | NESTED_COMPONENT) {
            let Some(version) = section.get(4..PREAMBLE) else { return Ok(()) };
            if open.len() > MAX_DEPTH {
                return Err(NotAComponent::TooDeep);
            }
            open.push(Open { end: after, is_component: version == COMPONENT });
            at = start + PREAMBLE;
            continue;
        }
        let checked = match (is_component, id) {
            (true, COMPONENT_TYPES) => types(section, start, &mut counts)?,
            (true, CANONICAL_FUNCTIONS) | (false, FUNCTIONS) => {
                count(section).map(|count| counts.functions(count)).transpose()?
            }
            // A custom section has no number, and there are as many bodies as functions.
            (true, CUSTOM) | (false, CUSTOM | CODE) => Some(()),
            _ => count(section).map(|count| counts.definitions(count)).transpose()?,
        };
        if checked.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

const CUSTOM: u8 = 0;
/// Ids of sections of a component.
const MODULE: u8 = 1;
const NESTED_COMPONENT: u8 = 4;
const COMPONENT_TYPES: u8 = 7;
const CANONICAL_FUNCTIONS: u8 = 8;
/// Ids of sections of a core module.
const FUNCTIONS: u8 = 3;
const CODE: u8 = 10;

/// Returns the number that a section begins with; `None` if there is none.
fn count(section: &[u8]) -> Option<u32> {
    BinaryReader::new(section, 0).read_var_u32().ok()
}

/// Walks a section of types. Returns `None` if it is damaged.
fn types(section: &[u8], at: usize, counts: &mut Counts) -> Result<Option<()>, NotAComponent> {
    let mut reader = BinaryReader::new(section, at as _);
    let Ok(count) = reader.read_var_u32() else { return Ok(None) };
    counts.definitions(count)?;
    // The number of declarations left of the section, and of each type of a component or an instance inside.
    let mut open = vec![count];
    loop {
        let is_body = open.len() > 1;
        match open.last_mut() {
            None => return Ok(Some(())),
            Some(0) => {
                open.pop();
                continue;
            }
            Some(left) => *left -= 1,
        }
        match declaration(&mut reader, is_body) {
            Err(_) => return Ok(None),
            Ok(None) => {}
            Ok(Some(declarations)) => {
                counts.definitions(declarations)?;
                if open.len() > MAX_DEPTH {
                    return Err(NotAComponent::TooDeep);
                }
                open.push(declarations);
            }
        }
    }
}

/// Reads one declaration. For the type of a component or an instance it reads the beginning, and returns the number of
/// declarations in it.
fn declaration(
    reader: &mut BinaryReader<'_>,
    is_body: bool,
) -> Result<Option<u32>, BinaryReaderError> {
    const CORE_TYPE: u8 = 0x00;
    const TYPE: u8 = 0x01;
    const ALIAS: u8 = 0x02;
    const IMPORT: u8 = 0x03;
    const COMPONENT_TYPE: u8 = 0x41;
    const INSTANCE_TYPE: u8 = 0x42;
    match if is_body { reader.read_u8()? } else { TYPE } {
        CORE_TYPE => {
            reader.read::<CoreType<'_>>()?;
        }
        ALIAS => {
            reader.read::<ComponentAlias<'_>>()?;
        }
        IMPORT => {
            reader.read::<ComponentImport<'_>>()?;
        }
        TYPE => {
            let mut ahead = reader.clone();
            if matches!(ahead.read_u8()?, COMPONENT_TYPE | INSTANCE_TYPE) {
                *reader = ahead;
                return reader.read_var_u32().map(Some);
            }
            reader.read::<ComponentType<'_>>()?;
        }
        // An export, or damage, at which the parser ends.
        _ => {
            reader.read::<ComponentExternName<'_>>()?;
            reader.read::<ComponentTypeRef>()?;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
    const EMPTY_MODULE: &[u8] = b"\0asm\x01\0\0\0";

    fn number(mut value: usize) -> Vec<u8> {
        let mut bytes = vec![];
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        [&[id], number(content.len()).as_slice(), content].concat()
    }

    /// A component with one type, which holds a type, and so on.
    fn nested_types(kind: u8, depth: usize) -> Vec<u8> {
        let mut content = vec![1];
        content.extend([kind, 1, 1].repeat(depth));
        content.extend([kind, 0]);
        [EMPTY, &section(COMPONENT_TYPES, &content)].concat()
    }

    fn nested_components(depth: usize) -> Vec<u8> {
        let mut bytes = EMPTY.to_vec();
        for _ in 0..depth {
            bytes = [EMPTY, &section(NESTED_COMPONENT, &bytes)].concat();
        }
        bytes
    }

    fn with_module(sections: &[u8]) -> Vec<u8> {
        [EMPTY, &section(MODULE, &[EMPTY_MODULE, sections].concat())].concat()
    }

    // CAPABILITY-50, security line 300
    #[test]
    fn types_and_components_nest_up_to_the_limit() {
        for kind in [0x41, 0x42] {
            assert_eq!(check(&nested_types(kind, MAX_DEPTH - 1)), Ok(()));
            for depth in [MAX_DEPTH, 4900, 1_000_000] {
                assert_eq!(check(&nested_types(kind, depth)), Err(NotAComponent::TooDeep));
            }
        }
        assert_eq!(check(&nested_components(MAX_DEPTH)), Ok(()));
        assert_eq!(check(&nested_components(MAX_DEPTH + 1)), Err(NotAComponent::TooDeep));
        assert_eq!(check(&nested_components(2000)), Err(NotAComponent::TooDeep));
    }

    // CAPABILITY-50, security line 301
    #[test]
    fn functions_are_counted_over_all_modules() {
        let functions = |count| section(FUNCTIONS, &number(count));
        assert_eq!(check(&with_module(&functions(100_000))), Ok(()));
        let many = Err(NotAComponent::TooManyFunctions);
        assert_eq!(check(&with_module(&functions(100_001))), many);
        let half = with_module(&functions(60_000));
        assert_eq!(check(&half), Ok(()));
        assert_eq!(check(&[half.as_slice(), &half[PREAMBLE..]].concat()), many);
        let lifted = [EMPTY, &section(CANONICAL_FUNCTIONS, &number(100_001))].concat();
        assert_eq!(check(&lifted), many);
    }

    // CAPABILITY-50, security line 301
    #[test]
    fn other_definitions_are_counted_as_well() {
        let many = Err(NotAComponent::TooManyDefinitions);
        for id in [2, 3, 5, 6, 7, 9, 10, 11] {
            let bytes = [EMPTY, &section(id, &number(100_001))].concat();
            assert_eq!(check(&bytes), many, "section {id} of a component");
        }
        for id in [1, 2, 4, 5, 6, 7, 9, 11] {
            assert_eq!(check(&with_module(&section(id, &number(100_001)))), many, "{id}");
        }
        // The declarations inside of types count too.
        let content = [&[1, 0x42], number(100_001).as_slice()].concat();
        assert_eq!(check(&[EMPTY, &section(COMPONENT_TYPES, &content)].concat()), many);
    }

    #[test]
    fn what_real_components_have_is_far_from_every_limit() {
        for one in crate::builtin::ALL {
            assert_eq!(check(one.bytes), Ok(()), "{}", one.name);
        }
    }

    #[test]
    fn damage_ends_the_check_without_a_panic() {
        let whole = crate::builtin::FILE_TOOLS.bytes;
        for end in (0..whole.len()).step_by(997) {
            assert_eq!(check(&whole[..end]), Ok(()), "cut at {end}");
        }
        let mut bytes = whole.to_vec();
        for at in (0..bytes.len()).step_by(499) {
            bytes[at] ^= 0xff;
            let _ = check(&bytes);
            bytes[at] ^= 0xff;
        }
    }
}
