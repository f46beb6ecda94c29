// Package command is the language in which models call skills by text: lines
// in a fenced block, as
//
//	I will note that down.
//
//	```cmd
//	tasks.create --title "Call Ann" --tags customer call
//	tasks.search --status overdue
//	```
//
// It takes such blocks out of a reply ([Splitter]), reads their lines
// ([Parse]), turns flags into the arguments of a skill ([Args]), and writes
// what models are told: how a skill is called ([Usage], [Schema]), what there
// is ([Help], [Discover]), and texts of others, as data ([Quote]).
//
// # What is guaranteed
//
// A reply gives the same text and the same lines however it is cut into
// pieces. Only lines of a closed block are commands: what stands in another
// fence, in a block quote, in indented code or in a block that is never closed
// is not. What stands in a block never is text for the user. An error of this
// package says what is wrong with which line and what the right form is, so
// that a model can correct itself from it.
//
// # The language
//
// A block opens with a line of at least three backticks and "cmd", and closes
// with a line of at least as many backticks; both may be indented by up to
// three spaces. A command is one line: the name of a skill and its flags. A
// flag is --name=value, --name value, --name a b c for several values,
// or --name alone for true; the last of several equal flags counts, and '-' and
// '_' in names are the same. All values are text, which the skill's parameters
// turn into numbers and the like. Words that belong to no flag mean nothing and
// are kept in [Command.Stray].
//
// Values that contain spaces are put into double or single quotes. There is no
// escape character: text that contains one kind of quotes is put into the
// other, and what stands side by side is joined. A quoted value that begins
// its word, or follows "=", may go on for several lines of the block; it is
// a value even if it begins with "--". An apostrophe, a ' after a letter or
// digit, is an ordinary character, and so are $, &, #, * and \. Only a word
// that is ; | || && > or >> is refused, since it shows that a shell is
// expected.
//
// "get_skill", "<skill> --help" and "<domain> --help" ask for help and run
// nothing; see [Command.Discovery].
//
// # What may run concurrently
//
// Everything but one [Splitter]: it belongs to one reply.
//
// # What it is not
//
// It runs nothing and decides nothing about who may call what; that is
// [skill.Executor]'s. It keeps no skills: a [Catalog] has them.
package command
