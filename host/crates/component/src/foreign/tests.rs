//! Types, schemas and values without an engine. The component whose type is read is made by the build.

use proptest::prelude::*;
use serde_json::{Value, json};
use wasmtime::component::Val;

use super::arbitrary::{names, types};
use super::docs::Docs;
use super::json::{self, parse, schema, to_json};
use super::{Function, Int, LeftOut, MAX_FUNCTIONS, MAX_TOOLS, Type, read, tools};
use crate::{Inspection, Manifest, ManifestError, custom_section};

fn ordinary() -> Vec<u8> {
    std::fs::read(concat!(env!("ACT_TEST_COMPONENTS"), "/foreign.wasm")).unwrap()
}

fn values(of: &Type) -> BoxedStrategy<Val> {
    let boxed = |of: &Type| values(of).prop_map(Box::new);
    let side = |of: Option<&Type>| match of {
        Some(of) => boxed(of).prop_map(Some).boxed(),
        None => Just(None).boxed(),
    };
    match of {
        Type::Bool => any::<bool>().prop_map(Val::Bool).boxed(),
        Type::Int(Int::S8) => any::<i8>().prop_map(Val::S8).boxed(),
        Type::Int(Int::U8) => any::<u8>().prop_map(Val::U8).boxed(),
        Type::Int(Int::S16) => any::<i16>().prop_map(Val::S16).boxed(),
        Type::Int(Int::U16) => any::<u16>().prop_map(Val::U16).boxed(),
        Type::Int(Int::S32) => any::<i32>().prop_map(Val::S32).boxed(),
        Type::Int(Int::U32) => any::<u32>().prop_map(Val::U32).boxed(),
        Type::Int(Int::S64) => any::<i64>().prop_map(Val::S64).boxed(),
        Type::Int(Int::U64) => any::<u64>().prop_map(Val::U64).boxed(),
        Type::F32 => prop::num::f32::ANY.prop_map(Val::Float32).boxed(),
        Type::F64 => prop::num::f64::ANY.prop_map(Val::Float64).boxed(),
        Type::Char => any::<char>().prop_map(Val::Char).boxed(),
        Type::String => any::<String>().prop_map(Val::String).boxed(),
        Type::Bytes => {
            let byte = any::<u8>().prop_map(Val::U8);
            let text = any::<String>().prop_map(|text| text.bytes().map(Val::U8).collect());
            let bytes = prop_oneof![prop::collection::vec(byte, 0..8), text];
            bytes.prop_map(Val::List).boxed()
        }
        Type::List(of) => prop::collection::vec(values(of), 0..4).prop_map(Val::List).boxed(),
        Type::Tuple(types) => {
            types.iter().map(values).collect::<Vec<_>>().prop_map(Val::Tuple).boxed()
        }
        Type::Record(fields) => {
            let field = |(name, of): &(String, Type)| (Just(name.clone()), values(of));
            fields.iter().map(field).collect::<Vec<_>>().prop_map(Val::Record).boxed()
        }
        Type::Variant(cases) => {
            let case = |(name, of): &(String, Option<Type>)| {
                let name = name.clone();
                side(of.as_ref()).prop_map(move |value| Val::Variant(name.clone(), value)).boxed()
            };
            prop::strategy::Union::new(cases.iter().map(case)).boxed()
        }
        Type::Enum(names) => prop::sample::select(names.clone()).prop_map(Val::Enum).boxed(),
        Type::Flags(names) => {
            prop::sample::subsequence(names.clone(), 0..=names.len()).prop_map(Val::Flags).boxed()
        }
        Type::Option(of) => prop::option::of(boxed(of)).prop_map(Val::Option).boxed(),
        Type::Result(ok, error) => prop_oneof![
            side(ok.as_deref()).prop_map(|value| Val::Result(Ok(value))),
            side(error.as_deref()).prop_map(|value| Val::Result(Err(value))),
        ]
        .boxed(),
    }
}

fn typed_values() -> impl Strategy<Value = (Type, Val)> {
    types().prop_flat_map(|of| {
        let value = values(&of);
        (Just(of), value)
    })
}

fn lowered(of: &Type, value: &Value) -> Result<Val, String> {
    let params = [("it".to_owned(), of.clone())];
    let given = json!({ "it": value }).to_string();
    let values = json::arguments(&params, &given).map_err(|error| error.to_string())?;
    Ok(values.into_iter().next().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    // FOREIGN-4: by way of JSON text and back nothing is lost, and the schema allows what was written
    #[test]
    fn a_value_comes_back_as_it_was((of, value) in typed_values()) {
        let written = to_json(&of, &value).unwrap();
        let back = lowered(&of, &written).unwrap();
        // The values are compared as text, because a NaN does not equal itself, and JSON has one spelling for all NaNs.
        prop_assert_eq!(format!("{back:?}"), format!("{value:?}").replace("-NaN", "NaN"));
        let schema = jsonschema::validator_for(&schema(&of)).unwrap();
        prop_assert!(schema.is_valid(&written), "{} {}", of, written);
    }

    // FOREIGN-4: what does not fit is refused, whatever it is
    #[test]
    fn nothing_that_the_schema_forbids_is_let_in(of in types(), other in types().prop_flat_map(|of| values(&of).prop_map(move |value| (of.clone(), value)))) {
        let (other, value) = other;
        let written = to_json(&other, &value).unwrap();
        let schema = jsonschema::validator_for(&schema(&of)).unwrap();
        if !schema.is_valid(&written) {
            prop_assert!(lowered(&of, &written).is_err(), "{} takes {}", of, written);
        }
    }
}

// FOREIGN-4
#[test]
fn a_misfit_says_where_and_what_was_expected() {
    let point = Type::Record(vec![
        ("x".to_owned(), Type::F64),
        ("tags".to_owned(), Type::List(Box::new(Type::Enum(names(2))))),
        ("note".to_owned(), Type::Option(Box::new(Type::String))),
    ]);
    let params = [("at".to_owned(), point), ("n".to_owned(), Type::Int(Int::U8))];
    let misfit =
        |text: &str| json::arguments(&params, text).map_err(|error| error.to_string()).unwrap_err();
    let fits = r#"{"at":{"x":1,"tags":["name-1"]},"n":255.0}"#;
    assert_eq!(json::arguments(&params, fits).unwrap().len(), 2);
    for (text, said) in [
        ("{", "not JSON"),
        ("[]", "expected an object, found an array"),
        ("", "`at` is missing"),
        (r#"{"at":{"x":1,"tags":[]}}"#, "`n` is missing"),
        (r#"{"at":{"x":1,"tags":[]},"n":256}"#, "at `n`: 256 is not between 0 and 255"),
        (r#"{"at":{"x":1,"tags":[]},"n":-1}"#, "at `n`: -1 is not between 0 and 255"),
        (r#"{"at":{"x":1,"tags":[]},"n":1.5}"#, "at `n`: expected a whole number"),
        (r#"{"at":{"x":1,"tags":[]},"n":"1"}"#, "at `n`: expected a whole number, found a string"),
        (r#"{"at":{"x":"1","tags":[]},"n":1}"#, "at `at/x`: expected a number"),
        (r#"{"at":{"x":1,"tags":["name-0","no"]},"n":1}"#, "at `at/tags/1`: unknown `no`"),
        (
            r#"{"at":{"x":1,"tags":[],"y":2},"n":1}"#,
            "at `at`: unknown `y`; expected `x`, `tags`, `note`",
        ),
        (r#"{"at":{"x":1,"tags":[],"note":2},"n":1}"#, "at `at/note`: expected a string"),
        (r#"{"at":{"x":1,"tags":[]},"n":1,"m":2}"#, "unknown `m`"),
        (r#"{"n":1,"at":{"x":1,"tags":[]},"n":2}"#, "`n` occurs twice"),
    ] {
        assert!(misfit(text).contains(said), "{text}: {}", misfit(text));
    }
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    assert!(misfit(&format!(r#"{{"n":{deep}}}"#)).contains("recursion"), "{}", misfit(&deep));
}

// FOREIGN-4
#[test]
fn numbers_that_readers_of_json_round_are_written_as_digits() {
    for (of, value, written) in [
        (Type::Int(Int::U64), Val::U64(u64::MAX), json!("18446744073709551615")),
        (Type::Int(Int::S64), Val::S64(i64::MIN), json!("-9223372036854775808")),
        (Type::Int(Int::U64), Val::U64(1 << 52), json!(4_503_599_627_370_496_u64)),
        (Type::F32, Val::Float32(0.1), json!(0.1)),
        (Type::F64, Val::Float64(f64::NEG_INFINITY), json!("-Infinity")),
        (Type::F32, Val::Float32(f32::NAN), json!("NaN")),
        (Type::Bytes, Val::List(vec![Val::U8(104), Val::U8(105)]), json!("hi")),
        (Type::Bytes, Val::List(vec![Val::U8(0)]), json!({"base64": "AA=="})),
    ] {
        assert_eq!(to_json(&of, &value), Some(written), "{of}");
    }
    let wide = Type::Int(Int::U64);
    assert_eq!(lowered(&wide, &json!(u64::MAX)), Ok(Val::U64(u64::MAX)));
    assert!(lowered(&wide, &json!("18446744073709551616")).unwrap_err().contains("not between"));
    for not in ["+5", "007", "-0", "", " 5", "1e3"] {
        assert!(lowered(&wide, &json!(not)).is_err(), "{not}");
        let schema = jsonschema::validator_for(&schema(&wide)).unwrap();
        assert!(!schema.is_valid(&json!(not)), "{not}");
    }
    assert_eq!(lowered(&Type::Int(Int::S64), &json!("-9")), Ok(Val::S64(-9)));
    assert!(lowered(&Type::F32, &json!(1e300)).unwrap_err().contains("too large for an f32"));
    assert!(lowered(&Type::Char, &json!("ab")).unwrap_err().contains("exactly one"));
}

// FOREIGN-5
#[test]
fn one_call_takes_a_bounded_number_of_values() {
    let many = Type::List(Box::new(Type::Bool));
    let zeros = |count: usize| json!(vec![false; count]);
    assert!(lowered(&many, &zeros(100_000)).is_ok());
    assert!(lowered(&many, &zeros(300_000)).unwrap_err().contains("more than 250000 values"));
    let long = json!("x".repeat(300_000));
    assert!(lowered(&Type::Bytes, &long).unwrap_err().contains("300000 bytes"));
    assert!(lowered(&Type::String, &long).is_ok());
}

fn functions() -> (Vec<Function>, Vec<LeftOut>) {
    let manifest = read_manifest(&ordinary()).unwrap();
    (manifest.functions, manifest.left_out)
}

// FOREIGN-1, FOREIGN-2
#[test]
fn functions_are_tools_under_their_own_names_with_schemas_from_their_types() {
    let (functions, _) = functions();
    let names: Vec<_> = functions.iter().map(|function| function.tool.as_str()).collect();
    for name in
        ["greet", "divide", "nothing", "shapes_draw", "files_write_and_fail", "trouble_spin"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    let seeing = tools(&functions, true);
    assert!(
        seeing
            .iter()
            .all(|tool| tool.description.ends_with("The files of the repository are in /repo"))
    );
    let tools = tools(&functions, false);
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
    assert_eq!(tool("divide").description, "`divide: func(a: s64, b: s64) -> result<s64, string>`");
    assert_eq!(
        tool("files_rename").description,
        "`rename: func(from: string, to: string) -> result<_, string>` of test:ordinary/files@1.2.0"
    );
    let draw: Value = serde_json::from_str(&tool("shapes_draw").parameters).unwrap();
    assert_eq!(draw["required"], json!(["what", "colour", "style"]));
    let schema = jsonschema::validator_for(&draw).unwrap();
    let shapes = json!(["nothing", {"circle": [{"x": 1.5, "y": "NaN"}, 2]}, {"named": "a"}]);
    let fits = json!({"what": shapes, "colour": "dark-green", "style": ["bold"]});
    assert!(schema.is_valid(&fits));
    assert!(!schema.is_valid(&json!({"what": ["circle"], "colour": "red", "style": []})));
    let nothing: Value = serde_json::from_str(&tool("nothing").parameters).unwrap();
    assert_eq!(nothing["properties"], json!({}));
}

// FOREIGN-3
#[test]
fn what_has_resources_is_left_out_and_named() {
    let (functions, left_out) = functions();
    assert!(functions.iter().all(|function| !function.tool.contains("counter")));
    let why = |end: &str| {
        let found = left_out.iter().find(|one| one.function.ends_with(end));
        found.unwrap_or_else(|| panic!("{end}: {left_out:?}")).why.as_str()
    };
    assert!(why("#make-counter").starts_with("its result is or holds a resource"));
    assert!(why("#add").starts_with("its parameter `to` is or holds a resource"));
    assert!(why("#[method]counter.next").contains("belongs to a resource"));
    assert_eq!(left_out.len(), 3, "{left_out:?}");
}

// FOREIGN-1
#[test]
fn a_manifest_may_name_it_and_its_needs_but_not_its_tools() {
    let packed = |manifest: Value| {
        read_manifest(&custom_section::pack(&ordinary(), manifest.to_string().as_bytes()))
    };
    let mut manifest = json!({"kind": "tool", "name": "shapes", "version": "1", "about": "Draws.",
        "needs": [{"grant": "repo.read", "why": "to read"}]});
    let read = packed(manifest.clone()).unwrap();
    assert_eq!((read.name.as_str(), read.needs.len(), read.world()), ("shapes", 1, "foreign"));
    assert!(read.tools.len() > 10);
    let bare = Inspection::of(ordinary()).unwrap();
    assert!(bare.is_what_it_says() && bare.manifest.needs.is_empty());
    manifest["tools"] = json!([]);
    assert!(matches!(packed(manifest), Err(ManifestError::Field { field: "tools", .. })));
}

/// A component that imports a function of the last of these types and exports it again. Each of them is written as it
/// stands in the section of types.
fn passing_on(types: &[Vec<u8>]) -> Vec<u8> {
    let section = |id: u8, items: usize, body: &[u8]| {
        let mut whole = vec![u8::try_from(items).unwrap()];
        whole.extend_from_slice(body);
        // A size of two bytes, which is always enough here.
        let size = u16::try_from(whole.len()).unwrap();
        let mut section = vec![id, u8::try_from(size & 0x7f).unwrap() | 0x80];
        section.push(u8::try_from(size >> 7).unwrap());
        section.extend(whole);
        section
    };
    let last = u8::try_from(types.len() - 1).unwrap();
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    bytes.extend(section(7, types.len(), &types.concat()));
    bytes.extend(section(10, 1, &[0, 1, b'f', 1, last]));
    bytes.extend(section(11, 1, &[0, 1, b'g', 1, 0, 0]));
    bytes
}

/// `func(a: …)` of the type with that index.
fn taking(index: u8) -> Vec<u8> {
    vec![0x40, 1, 1, b'a', index, 1, 0]
}

// FOREIGN-5: small in the file, and a million parts outside of it
#[test]
fn a_type_that_doubles_itself_is_left_out() {
    let string = 0x73;
    let double = |of: u8| vec![0x6f, 2, of, of];
    let mut types = vec![double(string)];
    types.extend((0..9).map(double));
    types.push(taking(3));
    let found = read(&passing_on(&types), &["g".to_owned()], &Docs::default()).unwrap();
    assert_eq!((found.functions.len(), found.left_out.len()), (1, 0), "{found:?}");
    types.pop();
    types.push(taking(9));
    let found = read(&passing_on(&types), &["g".to_owned()], &Docs::default()).unwrap();
    assert!(found.left_out[0].why.contains("more than 1,000 parts"), "{found:?}");
}

// FOREIGN-3, FOREIGN-5
#[test]
fn what_cannot_be_told_in_json_is_left_out_for_that_reason() {
    let option = |of: u8| vec![0x6b, of];
    let mut deep = vec![option(0x73)];
    deep.extend((0..20).map(option));
    deep.push(taking(20));
    for (types, why) in [
        (deep, "too deep"),
        (vec![vec![0x66, 1, 0x7d], taking(0)], "a stream"),
        (vec![vec![0x65, 1, 0x7d], taking(0)], "a future"),
    ] {
        let found = read(&passing_on(&types), &["g".to_owned()], &Docs::default()).unwrap();
        assert!(found.left_out[0].why.contains(why), "{found:?}");
        let refused = read_manifest(&passing_on(&types)).unwrap_err();
        assert!(matches!(refused, ManifestError::NoFunction(_)), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

fn read_manifest(component: &[u8]) -> Result<Manifest, crate::ManifestError> {
    Manifest::of(component, &crate::inspect::Sections::of(component)?)
}

// FOREIGN-4
#[test]
fn it_reads_what_json_is_and_no_name_twice() {
    let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"x\u0000"],"b":{"a":1,"b":{}}}"#;
    assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    for twice in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
        let error = parse(twice).unwrap_err().to_string();
        assert!(error.starts_with("`a` occurs twice at line 1"), "{error}");
    }
    assert!(parse("{} x").is_err() && parse("[").is_err());
    assert!(parse(&"[".repeat(200)).unwrap_err().to_string().contains("recursion"));
}

fn leb(mut n: usize) -> Vec<u8> {
    let mut out = vec![];
    loop {
        let byte = u8::try_from(n & 0x7f).unwrap();
        n >>= 7;
        if n == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

fn sized(bytes: Vec<u8>) -> Vec<u8> {
    [leb(bytes.len()), bytes].concat()
}

fn section(id: u8, items: &[Vec<u8>]) -> Vec<u8> {
    [vec![id], sized([leb(items.len()), items.concat()].concat())].concat()
}

fn name(text: &str) -> Vec<u8> {
    sized(text.as_bytes().to_vec())
}

/// One function with one parameter of that name, exported that often from an interface.
fn exporting(times: usize, parameter: &str) -> Vec<u8> {
    let core = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[b"\x60\x01\x7f\0".to_vec()]),
        section(3, &[vec![0]]),
        section(7, &[[name("f"), vec![0, 0]].concat()]),
        section(10, &[b"\x02\0\x0b".to_vec()]),
    ];
    let exports: Vec<_> =
        (0..times).map(|n| [vec![0], name(&format!("a{n}")), vec![1, 0]].concat()).collect();
    let of = [vec![0x40], leb(1), name(parameter), vec![0x79, 1, 0]].concat();
    [
        b"\0asm\x0d\0\x01\0".to_vec(),
        [vec![1], sized(core.concat())].concat(),
        section(2, &[vec![0, 0, 0]]),
        section(6, &[[vec![0, 0, 1, 0], name("f")].concat()]),
        section(7, &[of]),
        section(8, &[vec![0, 0, 0, 0, 0]]),
        section(5, &[[vec![1], leb(times), exports.concat()].concat()]),
        section(11, &[[vec![0], name("x:y/i"), vec![5, 0, 0]].concat()]),
    ]
    .concat()
}

// FOREIGN-2: one type is small in the file, however often it is exported
#[test]
fn only_so_many_functions_are_looked_at() {
    let exports = ["x:y/i".to_owned()];
    let found = read(&exporting(3, "p"), &exports, &Docs::default()).unwrap();
    assert_eq!((found.functions.len(), found.left_out.len()), (3, 0));
    let found = read(&exporting(MAX_FUNCTIONS + 500, "p"), &exports, &Docs::default()).unwrap();
    assert_eq!(found.functions.len(), MAX_TOOLS);
    assert_eq!(found.left_out.len(), MAX_FUNCTIONS - MAX_TOOLS + 1);
    assert_eq!(found.left_out.last().unwrap().function, "500 functions");
}
