//! Values and their lines in every format, and what is no such format.

use super::*;

#[test]
fn values_of_every_format_know_their_lines() {
    let json =
        json("{\n  \"scripts\": {\n    \"test\": \"jest\",\n    \"n\": [1,\n 2]\n  }\n}").unwrap();
    assert_eq!(json.text_at(&["scripts", "test"]), Some(("jest", 3)));
    assert_eq!(json.get(&["scripts", "n"]).unwrap().items()[1].line, 5);
    let toml = toml("[a]\nb = \"c\"\n\n[a.d]\ne = [\n 1,\n 2]\n").unwrap();
    assert_eq!(toml.text_at(&["a", "b"]), Some(("c", 2)));
    assert_eq!(toml.line_of(&["a", "d"]), Some(4));
    assert_eq!(toml.get(&["a", "d", "e"]).unwrap().items()[1].line, 7);
    let yaml =
        yaml("jobs:\n  test:\n    - run: |\n        one\n        two\n    - run: three\n").unwrap();
    let steps = yaml.get(&["jobs", "test"]).unwrap().items();
    assert_eq!(steps[0].text_at(&["run"]), Some(("one\ntwo\n", 4)));
    assert_eq!(steps[1].text_at(&["run"]), Some(("three", 6)));
    let ini = ini("[tox]\nenvlist = py\n[testenv]\ncommands =\n  one\n  two\n");
    assert_eq!(ini.text_at(&["tox", "envlist"]), Some(("py", 2)));
    assert_eq!(ini.get(&["testenv", "commands"]).unwrap().each()[1].line, 6);
}

// SCOUT-B-10
#[test]
fn what_is_malformed_says_where_and_nothing_traps() {
    assert_eq!(json("{\n\"a\": }").unwrap_err().line, Some(2));
    assert_eq!(toml("a = 1\nb = \n").unwrap_err().line, Some(2));
    assert!(yaml("a: [\n").is_err());
    let deep = 100_000;
    for text in [format!("{}{}", "[".repeat(deep), "]".repeat(deep)), "{\"a\":".repeat(deep)] {
        let _ = (json(&text), yaml(&text), toml(&format!("a = {text}")), ini(&text));
    }
    let aliases = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n";
    assert_eq!(yaml(aliases).unwrap().get(&["c"]).unwrap().items().len(), 2);
}
