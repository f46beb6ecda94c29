package text

// NotHeard asks the user of a message that is audio alone to say it otherwise, because it was not
// made text: why is one of the mesh's reasons.
func NotHeard(why string) string {
	return Sprintf("I could not understand your message: %s. Say it again, or write it.", unheard(why))
}

// AudioNotHeard stands for audio beside words, of which an agent is told that it is not known what is
// said in it, and why.
func AudioNotHeard(why string) string {
	return Sprintf("audio that was not understood: %s", unheard(why))
}

// HearsNothing says that a model is not shown audio because it takes none.
func HearsNothing() string { return Sprintf("audio, which you cannot hear") }

// NobodyHears says how an operator has audio made text, of which a message was refused.
func NobodyHears() string {
	return Sprintf("the mesh cannot hear; its operator can set voice.transcription.name, so that audio is made text")
}

// unheard is a reason in words.
func unheard(why string) string {
	switch why {
	case "NO_WORDS":
		return Sprintf("nobody speaks in it")
	case "AUDIO_TOO_LONG":
		return Sprintf("it is too long")
	case "AUDIO_REFUSED":
		return Sprintf("it is no audio in a format that can be transcribed")
	}
	return Sprintf("what transcribes audio does not work at the moment")
}
