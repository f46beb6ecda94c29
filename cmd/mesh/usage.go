package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// nothing refuses arguments of a command that takes none.
func nothing(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes no arguments, and %q is one", cmd.CommandPath(), mesh.Clip(args[0], 60))
}

// kinds are what values of flags are, by the flag's type.
var kinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number",
	"bool": "true or false", "duration": "a time such as 90s or 5m",
}

// flagError says of a flag that cannot be read what it should be.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		bare    *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := skill.Closest(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	case errors.As(err, &bare) && bare.GetSpecifiedShortnames() == "":
		return fmt.Errorf("--%s needs a value", bare.GetSpecifiedName())
	case errors.As(err, &invalid) && kinds[invalid.GetFlag().Value.Type()] != "":
		return fmt.Errorf("--%s must be %s, and is %q", invalid.GetFlag().Name, kinds[invalid.GetFlag().Value.Type()], mesh.Clip(invalid.GetValue(), 60))
	}
	return err
}
