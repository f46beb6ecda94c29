package call

func init() { maxAnswer = 2 << 20 }
