//! A person who signs commits with the installed git, gpg and ssh-keygen.

use std::path::PathBuf;
use std::process::Command;

use jiff::Timestamp;

use super::forge::Forge;
use crate::git::{Error, History, Mirror, RefSpec, Verification};

/// A repository with a work tree, and directories for gpg and ssh keys.
pub(super) struct Author {
    pub(super) forge: Forge,
    pub(super) gpg: Option<Agent>,
}

/// A gpg home directory. Dropping it stops its agent.
pub(super) struct Agent(PathBuf);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").arg("--homedir").arg(&self.0).args(["--kill", "all"]).output();
    }
}

pub(super) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "gpg and ssh-keygen sign with the real clock")]
    Timestamp::now()
}

impl Author {
    pub(super) fn new() -> Self {
        let author = Self { forge: Forge::new(), gpg: None };
        author.git(&["init", "-q", "-b", "main", "work"], author.root());
        author.forge.repo().set_head("refs/heads/main").unwrap();
        author
    }

    /// Creates an author with a gpg home directory.
    pub(super) fn with_gpg() -> Self {
        let mut author = Self::new();
        let home = author.root().join("gpg");
        std::fs::create_dir(&home).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&home, mode).unwrap();
        author.gpg = Some(Agent(home));
        author
    }

    pub(super) fn root(&self) -> PathBuf {
        self.forge.root()
    }

    pub(super) fn run(&self, program: &str, args: &[&str], dir: PathBuf) -> String {
        let output = Command::new(program)
            .args(args)
            .current_dir(dir)
            .env("HOME", self.root())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GNUPGHOME", self.gpg.as_ref().map_or("/nonexistent".into(), |agent| agent.0.clone()))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "A User")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "user@example.org")))
            .output()
            .unwrap_or_else(|e| panic!("this test needs {program}: {e}"));
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(super) fn git(&self, args: &[&str], dir: PathBuf) -> String {
        self.run("git", args, dir)
    }

    /// Runs git in the work tree, and pushes everything.
    pub(super) fn work(&self, args: &[&str]) -> String {
        let output = self.git(args, self.root().join("work"));
        let remote = self.forge.path().display().to_string();
        self.git(&["push", "-q", "-f", "--all", &remote], self.root().join("work"));
        self.git(&["push", "-q", "-f", "--tags", &remote], self.root().join("work"));
        output
    }

    /// Commits with more arguments for git before and after `commit`.
    pub(super) fn commit(&self, before: &[&str], after: &[&str]) -> String {
        let commit = ["commit", "-q", "--allow-empty", "-m", "change"];
        self.work(&[before, &commit, after].concat());
        self.work(&["rev-parse", "HEAD"])
    }

    /// Generates an SSH key, and returns its public key line.
    pub(super) fn ssh_key(&self, name: &str, kind: &[&str]) -> String {
        let path = self.root().join(name).display().to_string();
        self.run("ssh-keygen", &[&["-q", "-N", "", "-C", "", "-f", &path], kind].concat(), self.root());
        std::fs::read_to_string(format!("{path}.pub")).unwrap().trim().to_owned()
    }

    pub(super) fn ssh_commit(&self, key: &str) -> String {
        let key = format!("user.signingKey={}", self.root().join(key).display());
        self.commit(&["-c", "gpg.format=ssh", "-c", &key], &["-S"])
    }

    pub(super) fn gpg(&self, args: &[&str]) -> String {
        self.run(
            "gpg",
            &[&["--batch", "--no-tty", "--passphrase", "", "--pinentry-mode", "loopback"], args].concat(),
            self.root(),
        )
    }

    /// Generates an OpenPGP key, and returns its fingerprint.
    pub(super) fn gpg_key(&self, user: &str, algorithm: &str, further: &[&str], expires: &str) -> String {
        self.gpg(&[further, &["--quick-generate-key", user, algorithm, "sign", expires]].concat());
        let listed = self.gpg(&["--with-colons", "--list-keys", user]);
        listed
            .lines()
            .find_map(|line| line.strip_prefix("fpr:::::::::"))
            .unwrap()
            .trim_end_matches(':')
            .to_owned()
    }

    pub(super) fn gpg_public(&self, key: &str) -> String {
        self.gpg(&["--armor", "--export", key])
    }

    pub(super) fn gpg_commit(&self, key: &str) -> String {
        self.commit(&[], &[&format!("-S{key}")])
    }

    pub(super) fn fetch(&self, verification: Verification) -> Result<String, Error> {
        self.fetch_ref(&RefSpec::branch("main").unwrap(), verification)
    }

    pub(super) fn fetch_ref(&self, want: &RefSpec, verification: Verification) -> Result<String, Error> {
        let mut mirror: Mirror = self.forge.local();
        mirror.verification = Some(verification);
        mirror.fetch(want, History::default()).map(|checkout| checkout.revision.clone())
    }
}
