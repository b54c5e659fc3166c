//! The tables, their versions, and whether a database has them and nothing else.

use rusqlite::Connection;

/// "act1", so that `file` and we tell it from the databases of others.
pub(super) const APPLICATION_ID: i32 = 0x6163_7431;

/// One step for each version, never changed once released.
const STEPS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("proposals.sql"),
    include_str!("restarts.sql"),
    include_str!("beginnings.sql"),
    include_str!("run_ends.sql"),
];

pub(super) const VERSION: i64 = STEPS.len() as i64;

/// From its version to ours, within the caller's transaction.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let from: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in STEPS.iter().skip(usize::try_from(from).unwrap_or_default()) {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "user_version", VERSION)
}

/// The same tables and indexes as a new one: nothing missing, nothing planted.
pub(super) fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    let fresh = Connection::open_in_memory()?;
    migrate(&fresh)?;
    Ok(shape(connection)? == shape(&fresh)?)
}

type Shape = Vec<(String, String, Option<String>)>;

fn shape(connection: &Connection) -> rusqlite::Result<Shape> {
    let mut all = connection.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY name")?;
    let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // STORE-7: runs of a time when the hash of their end was not kept stay, without one.
    #[test]
    fn a_run_of_an_earlier_version_has_no_end_that_could_be_compared() {
        let connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..5] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 5).unwrap();
        let run = "INSERT INTO runs VALUES ('run_a', NULL, 'r', 'PASS', '', '', 1, '', '', '')";
        connection.execute_batch(run).unwrap();
        migrate(&connection).unwrap();
        assert!(is_ours(&connection).unwrap());
        let kept = "SELECT status, end_hash FROM runs";
        let kept: (String, Option<String>) =
            connection.query_row(kept, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(kept, ("PASS".to_owned(), None));
    }
}
