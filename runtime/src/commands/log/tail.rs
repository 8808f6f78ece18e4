//! `firstword log tail`.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use super::places;
use crate::cli::{LogTailArgs, When};
use crate::commands::Context;
use crate::exit::{CommandError, Exit, name, say};
use crate::log::read::{Content, Follow};
use crate::output::Writer;
use crate::report::tail::Teller;

/// How often new lines are looked for: a turn shows well within a second, and a device hardly notices.
const LOOK: Duration = Duration::from_millis(200);
// The writer's half second before a record is in the file comes on top, and all of it stays below one second.
const _: () = assert!(LOOK.as_millis() <= 250);

/// Shows the last lines, and goes on with what comes.
pub(super) fn run(args: &LogTailArgs, context: &Context) -> Result<Exit, CommandError> {
    let named: Vec<_> = args.place.iter().cloned().collect();
    let places = places(&named, context)?;
    let place = &places[0];
    let teller = Teller {
        colour: colour(args.color),
    };
    let mut out = Writer::stdout();
    let (mut follow, last) = Follow::begin(place, args.lines as usize, &mut |segment, line| {
        // The beginnings of processes that ended long ago are no news.
        if matches!(line.content, Content::Header(_)) {
            return None;
        }
        teller.tell(segment, line)
    })?;
    out.put(&last.concat())?;
    if !args.follow {
        if last.is_empty() && follow.tally.read == 0 {
            // Refused with what is there instead, as all others do.
            super::open(&places)?;
        }
        for remark in follow.tally.remarks() {
            say(&remark);
        }
        return Ok(Exit::Success);
    }
    if follow.tally.read == 0 {
        say(&format!("{}: no record yet; waiting for one", name(place)));
    }
    loop {
        if let Some(exit) = context.interrupt.requested() {
            return Ok(exit);
        }
        let lines = follow.poll(&mut |segment, line| teller.tell(segment, line));
        if !lines.is_empty() {
            out.put(&lines.concat())?;
        }
        thread::sleep(LOOK);
    }
}

fn colour(when: When) -> bool {
    let unwanted = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        // https://no-color.org
        When::Auto => {
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            io::stdout().is_terminal() && !unwanted("NO_COLOR") && !dumb
        }
    }
}
