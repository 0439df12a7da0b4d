//! Foreign load: busy loops in processes of their own, one per CPU, that have nothing to do with
//! what is measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::sys;

/// The hidden subcommand that burns a CPU.
pub(crate) const SPIN: &str = "spin";

/// Running busy loops; dropping this ends them.
#[derive(Debug, Default)]
pub(crate) struct Burners(Vec<Child>);

impl Burners {
    /// Starts one busy loop on each CPU of this process' affinity mask and waits until all of them
    /// run.
    pub(crate) fn start() -> Result<Self> {
        let program = std::env::current_exe().context("finding this program's own file")?;
        let mut burners = Self::default();
        for cpu in sys::allowed_cpus()? {
            let mut child = Command::new(&program)
                .args([SPIN, "--cpu", &cpu.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .context("starting a foreign busy loop")?;
            let out = child.stdout.take();
            burners.0.push(child);
            let mut ready = String::new();
            BufReader::new(out.context("no pipe from the busy loop")?).read_line(&mut ready)?;
            anyhow::ensure!(!ready.is_empty(), "the foreign busy loop on CPU {cpu} ended at once");
        }
        Ok(burners)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Either fails only when the process is gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The busy loop itself: never returns on its own.
pub(crate) fn spin(cpu: u32) -> Result<()> {
    sys::die_with_parent()?;
    sys::pin_to(cpu)?;
    writeln!(std::io::stdout(), "spinning")?;
    loop {
        std::hint::spin_loop();
    }
}
